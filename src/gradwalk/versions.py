"""The versions and the machine with which a result was computed."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("gradwalk", "numpy", "scipy", "torch", "ray")


def versions() -> dict[str, str]:
    """Return the versions of Python, gradwalk and the installed packages that it computes with.

    >>> sorted(versions())[:2]
    ['gradwalk', 'numpy']
    """
    installed = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


def machine() -> dict[str, str | int | None]:
    """Return the operating system, the processor type and the number of cores."""
    return {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()}
