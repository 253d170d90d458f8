"""What a benchmark was run with: versions and cores."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version


def setting() -> dict[str, object]:
    """Return the versions of what is timed, and the number of cores."""
    found: dict[str, object] = {"python": platform.python_version(), "cores": os.cpu_count()}
    for package in ("gradwalk", "numpy", "scipy", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def line() -> str:
    """Return the setting as one line."""
    return ", ".join(f"{key} {value}" for key, value in setting().items())
