"""The versions and the machine with which a result was computed."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("gradwalk", "numpy", "scipy", "torch", "ray")


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python, gradwalk and the installed packages that it computes with.

    "commit" is that of gradwalk's own code, with "-dirty" if it was changed since, where it runs from a git repository.

    >>> sorted(set(versions()) - {"commit"})[:2]
    ['gradwalk', 'numpy']
    """
    installed = {"python": platform.python_version()}
    if (revision := commit()) is not None:
        installed["commit"] = revision
    for package in _PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


@cache
def commit() -> str | None:
    """Return the git commit of gradwalk's code; None if it is installed, or git is not."""
    here = ["git", "-C", str(Path(__file__).parent)]
    try:
        for command in (["ls-files", "--error-unmatch", Path(__file__).name], ["describe", "--always", "--dirty"]):
            done = subprocess.run([*here, *command], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def machine() -> dict[str, str | int | None]:
    """Return the operating system, the processor type and the number of cores."""
    return {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()}
