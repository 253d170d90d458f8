"""One writer per folder: a file lock, which the operating system releases when its process ends, however it ends."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from gradwalk.sweep.folder import LOCK

_PATIENCE = 1.0  # seconds: `is_alive` holds the lock for a moment


def acquire(folder: Path) -> FileLock:
    """Return the held lock of a folder; raise Timeout if another process holds it."""
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=_PATIENCE)
    except Timeout:
        raise
    except (OSError, NotImplementedError) as error:
        raise OSError(
            f"sweep: {folder / LOCK} cannot be locked ({error}); choose a folder on another file system"
        ) from None
    return lock


def is_alive(folder: Path, host: str, pid: int) -> bool:
    """Return whether the process that began to write a folder still does.

    The lock decides. Where it may not be tried, in a folder of another user, a process of this host is looked up, and
    one of another host is believed to run.
    """
    if not (folder / LOCK).exists():
        return False
    try:
        with FileLock(folder / LOCK).acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return host != socket.gethostname() or psutil.pid_exists(pid)


def in_words(host: str, pid: int, began: float) -> str:
    """Return a process in words: its id, its host, and when it began.

    >>> in_words("here", 12, 0.0).split(" since ")[0]
    'process 12 on here'
    """
    return f"process {pid} on {host} since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(began))}"
