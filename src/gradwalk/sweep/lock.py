"""One writer a folder: a lock of the operating system, which ends with the process, however that ends."""

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import IO, Any

_FAR = 1 << 30  # Windows locks bytes against reading too: one that nobody reads
_PATIENCE = 1.0  # seconds: `holder` has the lock for a moment when it looks


class Lock:
    """A lock on a file whose content says who holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Take the lock, or say who has it."""
        file = self.path.open("a+", encoding="utf-8")
        waited = time.monotonic() + _PATIENCE
        while not _lock(file, self.path):
            if time.monotonic() > waited:
                file.close()
                raise ValueError(f"sweep: {self.path.parent} is in use by {said(holder(self.path))}; wait, or stop it")
            time.sleep(0.05)
        self._file = file
        _write(file, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}))

    def release(self) -> None:
        """Give it back. The file stays: to remove it would let two processes hold two files of one name."""
        if self._file is not None:
            _write(self._file, "")
            self._file.close()
            self._file = None


def holder(path: Path) -> dict[str, Any] | None:
    """Return who holds the lock, as far as it is known: pid, host, since; None where nobody does."""
    if not path.exists():
        return None
    with path.open(encoding="utf-8") as file:
        if _lock(file, path):
            return None
        file.seek(0)
        try:
            found: dict[str, Any] = json.loads(file.read())
        except json.JSONDecodeError:  # taken this very moment
            return {}
        return found


def said(who: dict[str, Any] | None) -> str:
    """Return who holds a lock, in words."""
    if not who:
        return "another process"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(who["since"]))
    return f"process {who['pid']} on {who['host']} since {since}"


def _write(file: IO[str], text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()


def _lock(file: IO[str], path: Path) -> bool:
    """Lock the file if nobody else has; closing it gives the lock back."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(_FAR)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        raise OSError(f"sweep: {path} cannot be locked ({error}); choose a folder on another file system") from None
    return True
