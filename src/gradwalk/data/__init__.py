"""Data sets: fetched once, checked and standardised.

`load("mnist")` returns a `Dataset` with a training and a test split. `DATASETS` is the registry of data sets; add your
own with `DATASETS.register(DataSource("toy", load_toy))`, where `load_toy` may build its result with `from_arrays`.
"""

from importlib.util import find_spec

from gradwalk.data.arrays import from_arrays
from gradwalk.data.catalogue import DATASETS, Datasets, fetch, full_size, load, title
from gradwalk.data.examples import SCALINGS, Dataset, Examples, Scaling, standardise
from gradwalk.data.source import DataSource, Holding
from gradwalk.data.store import where

_NEEDED = ("kaldi_native_fbank", "platformdirs", "safetensors", "sklearn", "soundfile")
if _MISSING := [name for name in _NEEDED if find_spec(name) is None]:
    _SENTENCE = f"gradwalk.data needs {', '.join(_MISSING)}: pip install 'gradwalk[experiments]'"
    raise ModuleNotFoundError(_SENTENCE, name=_MISSING[0])

__all__ = [
    "DATASETS",
    "SCALINGS",
    "DataSource",
    "Dataset",
    "Datasets",
    "Examples",
    "Holding",
    "Scaling",
    "fetch",
    "from_arrays",
    "full_size",
    "load",
    "standardise",
    "title",
    "where",
]
