"""The cache of converted data: where it lies, files written whole or not at all, read back only if unharmed."""

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
_FACTS = "gradwalk"  # the entry in the header
Save = Callable[[Path, Arrays, Mapping[str, str]], None]


def where() -> Path:
    """Return the data folder: `GRADWALK_DATA` where it is set, else the platform's cache folder for gradwalk."""
    named = os.environ.get("GRADWALK_DATA")
    if not named:
        import platformdirs

        return Path(platformdirs.user_cache_dir("gradwalk", appauthor=False))
    folder = Path(named).expanduser()
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"data: GRADWALK_DATA must name a folder, got GRADWALK_DATA={named}")
    return folder


def existing(folder: str | Path) -> Path:
    """Return the folder as a path, or raise FileNotFoundError if it does not exist."""
    path = Path(folder).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"data: folder must exist, got folder={str(folder)!r}")
    return path


def converted(name: str) -> Path:
    """Return where the converted data set of that name lies, or would lie."""
    return where() / "converted" / f"{name}.safetensors"


def save(path: Path, arrays: Arrays, facts: Mapping[str, str]) -> None:
    """Write arrays and facts there, with their digest: under another name first, so that no half file ever shows."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        with atomic(path) as partial:
            partial.touch()
            mode = partial.stat().st_mode
            told = json.dumps({**facts, "digest": _digest(arrays, facts)})
            save_file(arrays, partial, metadata={_FACTS: told})  # one entry: of several the order is random
            partial.chmod(mode)  # safetensors gives it to its owner alone
    except (OSError, SafetensorError) as error:
        raise OSError(f"data: {path} cannot be written ({error})") from None


def try_save(path: Path, arrays: Arrays, facts: Mapping[str, str]) -> None:
    """Save, if the cache can be written; where it cannot, whoever has the arrays goes on with them."""
    with contextlib.suppress(OSError):
        save(path, arrays, facts)


def read(path: Path) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays and the facts that `save` wrote there; a file that is not as written is named and refused."""
    with _opened(path) as file:
        facts = _facts(file)
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if facts.pop("digest", None) != _digest(arrays, facts):
        raise ValueError(f"data: {path} is damaged (its digest does not match its content); remove it")
    return arrays, facts


def read_facts(path: Path) -> dict[str, str]:
    """Return the facts alone, without looking at the arrays."""
    with _opened(path) as file:
        return _facts(file)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"data: there is no file {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise ValueError(f"data: {path} is damaged ({error}); remove it") from None


def _facts(file: Any) -> dict[str, str]:
    return dict(json.loads((file.metadata() or {}).get(_FACTS, "{}")))


def _digest(arrays: Arrays, facts: Mapping[str, str]) -> str:
    state = hashlib.sha256(json.dumps(dict(facts), sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        state.update(f"{name} {array.dtype.str} {array.shape}".encode())
        state.update(array.data if array.size else b"")
    return state.hexdigest()
