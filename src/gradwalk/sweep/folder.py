"""The layout of a sweep's folder.

sweep.sqlite    the store: runs, epochs and sessions
lock            held by the process that writes the store
checkpoints/    one file per run under way
networks/       one file per finished network, if they are saved

*.damaged       what was found to be damaged, and set aside
"""

from pathlib import Path

from gradwalk.checks import shown

STORE = "sweep.sqlite"
LOCK = "lock"
CHECKPOINTS = "checkpoints"
NETWORKS = "networks"


def network_path(folder: str | Path, identity: str) -> Path:
    """Return the path of a finished run's network; `gradwalk.nets.load_network` reads it."""
    return Path(folder) / NETWORKS / f"{identity}.safetensors"


class LostFolderError(OSError):
    """The folder of a sweep, or its store, was removed or replaced while the sweep ran."""


class Identities:
    """Files and folders as they are when this is constructed, by which it is noticed if one is replaced later."""

    def __init__(self, *paths: Path) -> None:
        self._numbers = {path: _number(path) for path in paths}

    def check(self) -> None:
        """Raise a LostFolderError if one of them was removed or replaced."""
        for path, number in self._numbers.items():
            if _number(path) != number:
                raise LostFolderError(
                    f"sweep: {path} was removed or replaced while the sweep ran, and the sweep has stopped; put it "
                    "back, or repeat the command to train what is missing"
                )


def _number(path: Path) -> tuple[int, int] | None:
    """Return what identifies a file whatever its name; None if there is none at the path."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def checked_folder(where: str, folder: str | Path) -> Path:
    """Return the folder as a path; raise a ValueError for an empty text, which would stand for the current folder."""
    if not isinstance(folder, str | Path):
        raise TypeError(f"{where}: the folder must be a path, got {shown(folder)}")
    if not str(folder).strip():
        raise ValueError(f"{where}: the folder must have a name, got {str(folder)!r}; write . for the current one")
    return Path(folder)
