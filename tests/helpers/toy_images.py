"""A very small image set in the files of MNIST."""

import gzip

import numpy as np

from gradwalk.data import DataSource, idx
from gradwalk.data.idx import IdxFile
from gradwalk.data.image_files import ImageSet
from gradwalk.data.images import image_source

SHAPES = {
    "train-images-idx3-ubyte": (30, 4, 4),
    "train-labels-idx1-ubyte": (30,),
    "t10k-images-idx3-ubyte": (10, 4, 4),
    "t10k-labels-idx1-ubyte": (10,),
}


def toy_values() -> dict[str, np.ndarray]:
    """Return the arrays in the four files."""
    rng = np.random.default_rng(3)
    return {
        name: rng.integers(0, 10 if "labels" in name else 256, shape, dtype=np.uint8) for name, shape in SHAPES.items()
    }


def toy_files() -> dict[str, bytes]:
    """Return the four files, gzipped, by their usual names."""
    return {
        f"{name}.gz": gzip.compress(idx.encode(IdxFile(name, values.shape, ""), values), mtime=0)
        for name, values in toy_values().items()
    }


def toy_source(*mirrors: str, package: str | None = None, raw: bool = True) -> DataSource:
    """Return the data source "toy" of these files; raw: whether the digests of the unzipped files are known."""
    digests = {name.removesuffix(".gz"): content for name, content in toy_files().items()}
    files = tuple(
        IdxFile(name, SHAPES[name], idx.md5(zipped), idx.md5(gzip.decompress(zipped)) if raw else None)
        for name, zipped in digests.items()
    )
    images = ImageSet("toy", files, mirrors, torchvision="Toy", package=package)
    return image_source(images, title="Toy", contents="noise 4x4")
