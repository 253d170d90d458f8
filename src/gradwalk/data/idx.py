"""The four files of MNIST and of sets made like it: IDX, gzipped or not, each checked against its known digest."""

import gzip
import hashlib
import io
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class IdxFile:
    """One file: its usual name without .gz, its shape, and the md5 of its gzipped or its raw content.

    Where `raw_md5` is known it decides, however the file was compressed; else the gzipped file itself must match.
    """

    name: str
    shape: tuple[int, ...]
    gz_md5: str
    raw_md5: str | None = None

    @property
    def header(self) -> bytes:
        """The magic number (unsigned bytes, dimensions) and the shape, big-endian."""
        return bytes([0, 0, 8, len(self.shape)]) + np.array(self.shape, ">i4").tobytes()

    @property
    def names(self) -> list[str]:
        """The names under which people keep the file."""
        dotted = self.name.replace("-idx", ".idx")
        plain = [self.name, dotted] if self.raw_md5 else []
        return [f"{self.name}.gz", f"{dotted}.gz", *plain]


def decode(file: IdxFile, content: bytes, origin: str) -> Bytes:
    """Return the array that `content` holds, gzipped or raw; where it is not the known file, name `origin`."""
    known = md5(content) == file.gz_md5
    if content[:2] == b"\x1f\x8b":
        content = _unzip(file, content, origin)
    if not (known or md5(content) == file.raw_md5) or content[: len(file.header)] != file.header:
        raise ValueError(f"{origin} is not the known {file.name}: {len(content):,} bytes of md5 {md5(content)}")
    return np.frombuffer(content, np.uint8, offset=len(file.header)).reshape(file.shape)


def encode(file: IdxFile, values: Bytes) -> bytes:
    """Return the raw content of the file with these values."""
    return file.header + values.astype(np.uint8).tobytes()


def find(file: IdxFile, folders: list[Path]) -> Path | None:
    """Return where the file lies, under one of its usual names, in the first of the folders that has it."""
    places = (folder / name for folder in folders for name in file.names)
    return next((place for place in places if place.is_file()), None)


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _unzip(file: IdxFile, content: bytes, origin: str) -> bytes:
    """Return the unzipped content, and no more of it than the file can have."""
    size = len(file.header) + int(np.prod(file.shape))
    try:
        with gzip.open(io.BytesIO(content)) as stream:
            return stream.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{origin} is damaged: {error}") from None
