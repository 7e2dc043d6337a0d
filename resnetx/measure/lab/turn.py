"""One run in the lab at a time on a machine: real-time ranks of two would keep each other from the cores.

What says that a run is there is a socket with an abstract name, which the kernel takes away with the last process that
holds it: the one that builds the network, and the ranks that it forks. So nothing has to be cleaned up.

Reference: unix(7), abstract sockets.
"""

import errno
import socket
import sys
import time

NAME = "\0resnetx-lab"  # in the network namespace that runs are started from
_BETWEEN_s = 0.1


def taken(name: str = NAME) -> bool:
    """Whether a run is in the lab now, so that another one would wait."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(name)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return True
    return False


def wait_for_turn(name: str = NAME) -> socket.socket:
    """Waits until no other run is in the lab; this one is until the socket, and those of its children, are closed."""
    held = socket.socket(socket.AF_UNIX)
    waited = False
    while True:
        try:
            held.bind(name)
            return held
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        if not waited:
            print("waiting for another run in the lab of this machine to end", file=sys.stderr, flush=True)
            waited = True
        time.sleep(_BETWEEN_s)
