"""Runs in the lab take turns."""

import os
import socket
import subprocess
import sys
import threading
import uuid

import pytest

from resnetx.measure.lab.turn import taken, wait_for_turn

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="abstract sockets are Linux's"),
]


@pytest.fixture
def name():
    return f"\0resnetx-test-{uuid.uuid4().hex}"


def test_a_second_run_waits_for_the_end_of_the_first(name, capsys):
    assert not taken(name)
    first, got = wait_for_turn(name), []
    assert taken(name)
    second = threading.Thread(target=lambda: got.append(wait_for_turn(name)), daemon=True)
    second.start()
    second.join(0.15)
    assert second.is_alive()
    assert not got
    first.close()
    second.join(60)
    assert len(got) == 1
    assert capsys.readouterr().err == "waiting for another run in the lab of this machine to end\n"
    got[0].close()


def test_a_run_that_is_killed_ends_its_turn(name):
    words = "import sys, time; from resnetx.measure.lab.turn import wait_for_turn; held = wait_for_turn(sys.argv[1])"
    words += "; print(flush=True); time.sleep(600)"
    holder = subprocess.Popen([sys.executable, "-c", words.replace("sys.argv[1]", repr(name))], stdout=subprocess.PIPE)
    holder.stdout.readline()
    with pytest.raises(OSError), socket.socket(socket.AF_UNIX) as other:
        other.bind(name)
    os.kill(holder.pid, 9)
    holder.wait()
    wait_for_turn(name).close()
