"""Data sets: fetched once, checked, standardised. `load("mnist")` is a Dataset with a training and a held-out split."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gradwalk import checks
from gradwalk.data import images, speech
from gradwalk.data.examples import SCALINGS, Dataset, Examples, standardise
from gradwalk.data.images import digits, fashion_mnist, mnist
from gradwalk.data.speech import timit
from gradwalk.data.store import where

_NEEDED = ("kaldi_native_fbank", "platformdirs", "safetensors", "sklearn", "soundfile")
if _MISSING := [name for name in _NEEDED if find_spec(name) is None]:
    _SENTENCE = f"gradwalk.data needs {', '.join(_MISSING)}: pip install 'gradwalk[experiments]'"
    raise ModuleNotFoundError(_SENTENCE, name=_MISSING[0])

__all__ = [
    "NAMES",
    "SCALINGS",
    "Dataset",
    "Examples",
    "digits",
    "fashion_mnist",
    "fetch",
    "load",
    "mnist",
    "standardise",
    "timit",
    "where",
]

_LOADERS = {"mnist": mnist, "fashion_mnist": fashion_mnist, "digits": digits, "timit": timit}
NAMES = tuple(_LOADERS)


def load(
    name: str,
    *,
    examples: int | None = None,
    scaling: str = "dimension",
    folder: str | Path | None = None,
    **speech: Any,
) -> Dataset:
    """Return the data set of that name, fetched first where it must be.

    examples: the first so many of the training split. scaling: "dimension", "global" or "none", see `standardise`.
    folder: where the data lie, if not in the data folder. `phones`, `features` and `context` are for `timit` alone.

    >>> load("digits", examples=1000)
    Dataset(name='digits', train=1000, test=355, width=64, classes=10)
    """
    checks.one_of("data", "name", name, NAMES)
    if speech and name != "timit":
        raise TypeError(f"data: {', '.join(speech)} cannot be chosen for {name}, only for timit")
    return _LOADERS[name](examples=examples, scaling=scaling, folder=folder, **speech)


def fetch(name: str, *, folder: str | Path | None = None) -> Path:
    """Return where the converted data set lies in the cache, got from `folder` or from where it can be had.

    Only whole files that match their known digests are ever put there. digits lie in scikit-learn already.
    """
    checks.one_of("data", "name", name, NAMES)
    if name == "timit":
        return speech.fetch(folder)
    return images.fetch(name, folder)
