"""Files that are written whole or not at all."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

_PARTIAL = ".part"
_ABANDONED = 3600.0  # seconds after which a partial file belongs to nobody


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Give a name to write to in the same folder; what is written there becomes `path` at once, or never."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _clear_abandoned(path.parent)
    partial = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}{_PARTIAL}")
    try:
        partial.touch()
        mode = partial.stat().st_mode  # what the user's umask asks for: a library may make it anew as it likes
        yield partial
        partial.chmod(mode)
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a whole file, or leave what was there."""
    with atomic(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


def _clear_abandoned(folder: Path) -> None:
    """Remove the partial files of processes that were killed long ago."""
    for partial in folder.glob(f".*{_PARTIAL}"):
        with contextlib.suppress(OSError):
            if time.time() - partial.stat().st_mtime > _ABANDONED:
                partial.unlink()
