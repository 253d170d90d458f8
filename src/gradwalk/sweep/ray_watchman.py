"""A process that ends the agents of a Ray cluster once the driver that started it has died.

The others of Ray's processes end with the driver. Its agents notice it too, but first try to tell the head of the
cluster, which is dead, for a minute.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

# The end of its input is the end of the driver, however it came. psutil kills no other process that got the number.
_WATCHMAN = """
import contextlib, sys, psutil
agents = []
for number in sys.argv[1:]:
    with contextlib.suppress(psutil.Error):
        agents.append(psutil.Process(int(number)))
sys.stdin.read()
for agent in agents:
    with contextlib.suppress(psutil.Error):
        agent.kill()
"""


@contextmanager
def watchman() -> Iterator[None]:
    """Let a process watch this one, which has started a cluster, while the context is open."""
    command = [sys.executable, "-c", _WATCHMAN, *map(str, _agents())]
    # In a session of its own, where Ctrl-C does not reach it.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        process.communicate()


def _agents() -> list[int]:
    """Return the numbers of the processes that the raylet of this process has started."""
    raylets = [child for child in psutil.Process().children() if child.name() == "raylet"]
    return [process.pid for raylet in raylets for process in raylet.children()]
