"""Archives, tar or zip, read to their very end: every checksum is compared, and no size is trusted unchecked.

`tarfile` takes a damaged header for the end of the archive and does not read on to the checksum of gzip
(python/cpython#120740); either way, the rest of the files would be missing without an error.
"""

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

LARGEST_FILE = 16_000_000  # bytes of one file that is kept: 8 minutes of speech
LARGEST_ARCHIVE = 4_000_000_000  # bytes of all files, unpacked; TIMIT has 0.7 GB
MOST_FILES = 200_000  # TIMIT has 25,000
_BLOCK = 512  # of a tar archive
_CHUNK = 1 << 20
_COMPRESSED: dict[bytes, type[gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, OSError)

Wanted = Callable[[str], bool]


def members(source: Path, wanted: Wanted) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the files that are wanted; raise a ValueError if any part of it is damaged."""
    try:
        read = _zipped if _start(source).startswith(b"PK") else _taped
        yield from read(source, wanted)
    except _DAMAGE as error:
        raise ValueError(f"data: {source} is corrupt or not an archive ({error})") from None
    except (RuntimeError, struct.error) as error:  # an encrypted zip; a field that is cut
        raise ValueError(f"data: {source} cannot be read as an archive ({error})") from None


def check_size(origin: str, size: int, most: int = LARGEST_FILE) -> int:
    """Return the size of a file, or raise a ValueError if it is larger than any that is expected."""
    if size > most:
        raise ValueError(f"data: {origin} must have at most {most:,} bytes, got {size:,}")
    return size


def _start(source: Path) -> bytes:
    with source.open("rb") as file:
        return file.read(8)


def _zipped(source: Path, wanted: Wanted) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(source) as archive:
        infos = archive.infolist()
        _check_total(source, len(infos), sum(info.file_size for info in infos))
        for info in infos:  # the others too: a damaged name is noticed when its file is opened
            keep = not info.is_dir() and wanted(info.filename)
            if keep:
                check_size(f"{source}: {info.filename}", info.file_size)
            with archive.open(info) as file:
                content = _drained(file)
            if keep:
                yield info.filename, content


def _drained(file: IO[bytes]) -> bytes:
    """Return the content of a file up to the largest size that is kept, after reading all of it."""
    content = file.read(LARGEST_FILE)
    while file.read(_CHUNK):
        pass
    return content


def _taped(source: Path, wanted: Wanted) -> Iterator[tuple[str, bytes]]:
    with _unpacked(source) as plain:
        stream = _Limited(plain, source)
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            for number, member in enumerate(archive, 1):
                _check_total(source, number, member.offset_data)
                if member.isfile() and wanted(member.name):
                    check_size(f"{source}: {member.name}", member.size)
                    file = archive.extractfile(member)
                    assert file is not None
                    yield member.name, file.read()
            _check_end(stream, archive.offset)


def _unpacked(source: Path) -> IO[bytes]:
    """Return the stream of a file, decompressed if it begins as a compressed one does."""
    start = _start(source)
    kind = next((kind for magic, kind in _COMPRESSED.items() if start.startswith(magic)), None)
    return source.open("rb") if kind is None else cast(IO[bytes], kind(source))


def _check_end(stream: IO[bytes] | io.BufferedIOBase, offset: int) -> None:
    """Read the rest of a tar archive, which is a block of zeros or more; anything else is a header that is damaged."""
    stream.seek(offset)
    size = 0
    while chunk := stream.read(_CHUNK):
        size += len(chunk)
        if chunk.count(0) != len(chunk):
            raise tarfile.ReadError(f"damaged header at byte {offset:,}")
    if size < _BLOCK:
        raise tarfile.ReadError(f"it ends early, at byte {offset + size:,}")


def _check_total(source: Path, files: int, size: int) -> None:
    check_size(f"{source}, unpacked,", size, LARGEST_ARCHIVE)
    if files > MOST_FILES:
        raise ValueError(f"data: {source} must have at most {MOST_FILES:,} files, got more")


class _Limited(io.BufferedIOBase):
    """A stream that raises an error instead of reading more at once than any file has, or beyond the largest archive.

    `tarfile` reads the names and attributes of files whole, whatever size their headers claim.
    """

    def __init__(self, stream: IO[bytes], source: Path) -> None:
        self._stream, self._source = stream, source

    def read(self, size: int | None = -1, /) -> bytes:
        """Read that many bytes, or up to the end."""
        check_size(f"{self._source}: a header", size or 0)
        return self._stream.read(-1 if size is None else size)

    def seek(self, place: int, whence: int = 0, /) -> int:
        """Move to a place; a compressed stream is read on to it."""
        check_size(f"{self._source}, unpacked,", place, LARGEST_ARCHIVE)
        return self._stream.seek(place, whence)

    def tell(self) -> int:
        """Return the place."""
        return self._stream.tell()
