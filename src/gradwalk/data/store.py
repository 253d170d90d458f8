"""The data folder and the converted data sets in it: written atomically, verified when they are read."""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwalk.files import atomic

Arrays = dict[str, NDArray[Any]]
_FACTS = "gradwalk"  # the key in the header
Save = Callable[[Path, Arrays, Mapping[str, str]], None]


def where() -> Path:
    """Return the data folder: `GRADWALK_DATA` if it is set, else the platform's cache folder for gradwalk."""
    named = os.environ.get("GRADWALK_DATA")
    if not named:
        import platformdirs

        return Path(platformdirs.user_cache_dir("gradwalk", appauthor=False))
    folder = _expanded("GRADWALK_DATA", named)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"data: GRADWALK_DATA must name a folder, got GRADWALK_DATA={named}")
    return folder


def existing(folder: str | Path) -> Path:
    """Return the folder as a path, or raise FileNotFoundError if it does not exist."""
    path = _expanded("folder", folder)
    if not path.exists():
        raise FileNotFoundError(f"data: folder must exist, got folder={str(folder)!r}")
    return path


def _expanded(name: str, folder: str | Path) -> Path:
    try:
        return Path(folder).expanduser()
    except RuntimeError:  # there is no such user
        raise FileNotFoundError(f"data: {name} must name a folder, got {name}={str(folder)!r}") from None


def converted(name: str) -> Path:
    """Return the path of the converted data set of that name, whether or not it exists."""
    return where() / "converted" / f"{name}.safetensors"


def save(path: Path, arrays: Arrays, facts: Mapping[str, str]) -> None:
    """Write arrays and facts with their digest to `path`, atomically."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        with atomic(path) as partial:
            header = json.dumps({**facts, "digest": _digest(arrays, facts)})
            save_file(arrays, partial, metadata={_FACTS: header})  # one key: the order of several is random
    except (OSError, SafetensorError) as error:
        raise OSError(f"data: {path} cannot be written ({error})") from None


def try_save(path: Path, arrays: Arrays, facts: Mapping[str, str]) -> None:
    """Save as `save` does, but ignore a data folder that cannot be written to."""
    with contextlib.suppress(OSError):
        save(path, arrays, facts)


def read(path: Path) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays and facts that `save` wrote, or raise a ValueError that names a corrupt file."""
    with _opened(path) as file:
        facts = _facts(file)
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if facts.pop("digest", None) != _digest(arrays, facts):
        raise ValueError(f"data: {path} is corrupt (its digest does not match its contents); remove it")
    return arrays, facts


def read_facts(path: Path) -> dict[str, str]:
    """Return only the facts, without reading or verifying the arrays."""
    with _opened(path) as file:
        return _facts(file)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"data: {path} does not exist")
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise ValueError(f"data: {path} is corrupt ({error}); remove it") from None


def _facts(file: Any) -> dict[str, str]:
    return dict(json.loads((file.metadata() or {}).get(_FACTS, "{}")))


def _digest(arrays: Arrays, facts: Mapping[str, str]) -> str:
    state = hashlib.sha256(json.dumps(dict(facts), sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        state.update(f"{name} {array.dtype.str} {array.shape}".encode())
        state.update(array.data if array.size else b"")
    return state.hexdigest()
