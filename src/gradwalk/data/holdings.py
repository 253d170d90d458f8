"""What there is of each data set on this machine, told without loading it."""

from dataclasses import dataclass
from pathlib import Path

from gradwalk.data import audio, corpus, idx, images, speech, store
from gradwalk.data.sources import SETS, places

WHAT = {"mnist": "digits 28x28", "fashion_mnist": "clothes 28x28", "digits": "digits 8x8", "timit": "phones"}


@dataclass(frozen=True)
class Holding:
    """Where a data set lies, None where it does not; its bytes there, and its examples where they are known."""

    name: str
    what: str
    place: Path | None
    size: int | None = None
    train: int | None = None
    test: int | None = None


def holding(name: str) -> Holding:
    """Return what there is of the data set of that name.

    >>> holding("digits").train
    1442
    """
    if name == "timit":
        return _timit()
    if name == "digits":
        data, path = images.digits(scaling="none"), images.fetch("digits")
        return Holding(name, WHAT[name], path, _size(path), len(data.train), len(data.test))
    train, test = (file.shape[0] for file in SETS[name].files[1::2])
    place = _image_place(name)
    return Holding(name, WHAT[name], place, _size(place), train, test)


def _image_place(name: str) -> Path | None:
    """The converted file or, before there is one, the folder with all four files."""
    if store.converted(name).is_file():
        return store.converted(name)
    found = [idx.find(file, places(SETS[name], store.where())) for file in SETS[name].files]
    return found[0].parent if found[0] is not None and None not in found else None


def _timit() -> Holding:
    fetched = speech.fetched(audio.FEATURES[0])
    place = fetched if fetched.is_file() else corpus.locate(store.where(), itself=False)
    if place is None:
        return Holding("timit", WHAT["timit"], None)
    path = fetched if place == fetched else speech.cached(place, audio.FEATURES[0])
    try:
        facts = store.read_facts(path)
    except (FileNotFoundError, ValueError):
        return Holding("timit", WHAT["timit"], place, _size(place))
    return Holding("timit", facts["name"], place, _size(place), int(facts["train"]), int(facts["test"]))


def _size(place: Path | None) -> int | None:
    if place is None:
        return None
    if place.is_file():
        return place.stat().st_size
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
