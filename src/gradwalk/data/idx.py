"""IDX files, the format of MNIST, gzipped or not, each checked against its known digest."""

import gzip
import hashlib
import io
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
_OVERHEAD = 1_000_000  # bytes that a gzipped file may have more than its content


@dataclass(frozen=True)
class IdxFile:
    """One file: its usual name without .gz, the shape of its array, and the md5 of its gzipped and its raw content.

    If `raw_md5` is known, the raw content must match it, however it was compressed; else the gzipped file must match.
    """

    name: str
    shape: tuple[int, ...]
    gz_md5: str
    raw_md5: str | None = None

    @property
    def header(self) -> bytes:
        """The magic number (unsigned bytes, number of dimensions) and the shape, big-endian."""
        return bytes([0, 0, 8, len(self.shape)]) + np.array(self.shape, ">i4").tobytes()

    @property
    def size(self) -> int:
        """The number of bytes of the raw file."""
        return len(self.header) + int(np.prod(self.shape))

    @property
    def names(self) -> list[str]:
        """The names under which the file is usually kept."""
        dotted = self.name.replace("-idx", ".idx")
        plain = [self.name, dotted] if self.raw_md5 else []
        return [f"{self.name}.gz", f"{dotted}.gz", *plain]


def read(file: IdxFile, path: Path) -> Bytes:
    """Return the array in a file on disk, whose size is checked before it is read."""
    size = path.stat().st_size
    if size > file.size + _OVERHEAD:
        raise ValueError(f"{path} is not the known {file.name}: it has {size:,} bytes, where {file.size:,} are known")
    return decode(file, path.read_bytes(), str(path))


def decode(file: IdxFile, content: bytes, origin: str) -> Bytes:
    """Return the array in `content`, gzipped or raw; if it is not the known file, raise and name `origin`."""
    known = md5(content) == file.gz_md5
    if content[:2] == b"\x1f\x8b":
        content = _unzip(file, content, origin)
    if not (known or md5(content) == file.raw_md5) or content[: len(file.header)] != file.header:
        raise ValueError(f"{origin} is not the known {file.name}: {len(content):,} bytes of md5 {md5(content)}")
    return np.frombuffer(content, np.uint8, offset=len(file.header)).reshape(file.shape)


def encode(file: IdxFile, values: Bytes) -> bytes:
    """Return the raw content of the file that holds these values."""
    return file.header + values.astype(np.uint8).tobytes()


def find(file: IdxFile, folders: list[Path]) -> Path | None:
    """Return the path of the file, under one of its usual names, in the first folder that has it; None if none has."""
    places = (folder / name for folder in folders for name in file.names)
    return next((place for place in places if place.is_file()), None)


def md5(content: bytes) -> str:
    """Return the md5 of the content in hexadecimal digits."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _unzip(file: IdxFile, content: bytes, origin: str) -> bytes:
    """Return the unzipped content, at most one byte more than the file should have."""
    try:
        with gzip.open(io.BytesIO(content)) as stream:
            return stream.read(file.size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{origin} is corrupt: {error}") from None
