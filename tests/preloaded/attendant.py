"""The parent of a program that a fork of `server.py` runs for a client: `attendant.py CONNECTION PROCESS`."""

import _signal as signal  # as in client.py
import _socket as socket
import os
import select
import struct
import sys


def main(connection: socket.socket, program: int) -> None:
    end = os.pidfd_open(program)
    while end not in select.select([connection, end], [], [])[0]:
        sent = connection.recv(1)  # the number of a signal, or nothing if the client is dead
        signal.pidfd_send_signal(end, sent[0] if sent else signal.SIGKILL)
        if not sent:
            break
    status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    try:
        connection.sendall(struct.pack("!i", status))
    except OSError:  # the client is dead
        return


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
