"""Atomic writes: a file is replaced completely or not at all."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

_PARTIAL = ".part"
_ABANDONED = 3600.0  # seconds after which a partial file is taken to be abandoned


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder, which replaces `path` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _clear_abandoned(path.parent)
    partial = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}{_PARTIAL}")
    try:
        partial.touch()
        mode = partial.stat().st_mode  # set by the umask; a library may recreate the file with another
        yield partial
        partial.chmod(mode)
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file atomically: after an error the previous content is still there."""
    with atomic(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


def _clear_abandoned(folder: Path) -> None:
    """Remove partial files that killed processes left behind."""
    for partial in folder.glob(f".*{_PARTIAL}"):
        with contextlib.suppress(OSError):
            if time.time() - partial.stat().st_mtime > _ABANDONED:
                partial.unlink()
