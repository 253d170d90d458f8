"""The layout of a sweep's folder.

sweep.sqlite    the store: runs, epochs and sessions
lock            held by the process that writes the store
checkpoints/    one file per run under way
networks/       one file per finished network, if they are saved
"""

from pathlib import Path

STORE = "sweep.sqlite"
LOCK = "lock"
CHECKPOINTS = "checkpoints"
NETWORKS = "networks"


def network_path(folder: str | Path, identity: str) -> Path:
    """Return the path of a finished run's network; `gradwalk.nets.load_network` reads it."""
    return Path(folder) / NETWORKS / f"{identity}.safetensors"
