"""Check the distributions in dist/: the wheel holds the package and nothing else, and its README has no dead link.

python release/check.py
"""

import email
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEEDED = ("README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff", "pyproject.toml", "release/metadata.py")
LARGEST = 5_000_000  # bytes


def tracked(folder: str) -> set[str]:
    """Return the files of a folder that belong to the repository."""
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.splitlines())


def one(pattern: str) -> Path:
    """Return the only file in dist/ of this pattern."""
    (path,) = (ROOT / "dist").glob(pattern)
    return path


def wheel_problems(path: Path) -> list[str]:
    """Return what is wrong with the wheel."""
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        (metadata,) = (wheel.read(name) for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    expected = {name.removeprefix("src/") for name in tracked("src/gradwalk")}
    problems = [f"{name} is missing from the wheel" for name in sorted(expected - names)]
    problems += [f"{name} should not be in the wheel" for name in sorted(names - expected)]
    return problems + [f"the README links to {each}" for each in dead_links(metadata)]


def dead_links(metadata: bytes) -> list[str]:
    """Return the links in the description that would need the files beside it."""
    description = str(email.message_from_bytes(metadata).get_payload())
    return re.findall(r"\]\((?!https?:|#)([^)]+)\)", description)


def source_problems(path: Path) -> list[str]:
    """Return what is wrong with the source distribution."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()} - {"PKG-INFO", ""}
    missing = [name for name in (*NEEDED, *tracked("src"), *tracked("tests")) if name not in names]
    extra = sorted(names - tracked("."))
    return [f"{each} is missing from the sdist" for each in missing] + [f"{each} is in the sdist" for each in extra]


def main() -> None:
    """Print what is wrong, and exit with 1 if anything is."""
    wheel, source = one("*.whl"), one("*.tar.gz")
    problems = wheel_problems(wheel) + source_problems(source)
    problems += [f"{path.name} is too large" for path in (wheel, source) if path.stat().st_size > LARGEST]
    print("\n".join(problems) or f"{wheel.name} and {source.name} are complete")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
