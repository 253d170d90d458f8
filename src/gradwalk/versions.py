"""What a result was made with: versions and machine."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

_TOLD = ("gradwalk", "numpy", "scipy", "torch", "ray")


def versions() -> dict[str, str]:
    """Return the versions of Python, gradwalk and what it computes with, where installed.

    >>> sorted(versions())[:2]
    ['gradwalk', 'numpy']
    """
    found = {"python": platform.python_version()}
    for package in _TOLD:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str | int | None]:
    """Return the kind of machine and its number of cores."""
    return {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()}
