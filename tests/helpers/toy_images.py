"""A very small MNIST, in the files that the real one comes in."""

import gzip
from pathlib import Path

import numpy as np

from gradwalk.data import idx
from gradwalk.data.idx import IdxFile
from gradwalk.data.sources import ImageSet

SHAPES = {"train-images-idx3-ubyte": (30, 4, 4), "train-labels-idx1-ubyte": (30,)} | {
    "t10k-images-idx3-ubyte": (10, 4, 4),
    "t10k-labels-idx1-ubyte": (10,),
}


def toy_values() -> dict[str, np.ndarray]:
    """The content of the four files of a very small MNIST."""
    rng = np.random.default_rng(3)
    return {
        name: rng.integers(0, 10 if "labels" in name else 256, shape, dtype=np.uint8) for name, shape in SHAPES.items()
    }


def toy_files() -> dict[str, bytes]:
    """The four files, gzipped, under their usual names."""
    return {
        f"{name}.gz": gzip.compress(idx.encode(IdxFile(name, values.shape, ""), values), mtime=0)
        for name, values in toy_values().items()
    }


def toy_set(*mirrors: str, package: str | None = None, raw: bool = True) -> ImageSet:
    """The set of these files and their digests."""
    digests = {name.removesuffix(".gz"): content for name, content in toy_files().items()}
    files = [
        IdxFile(name, SHAPES[name], idx.md5(zipped), idx.md5(gzip.decompress(zipped)) if raw else None)
        for name, zipped in digests.items()
    ]
    return ImageSet("mnist", tuple(files), mirrors, package)


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def contents(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
