"""Trees of small files."""

from pathlib import Path


def put(folder: Path, files: dict[str, bytes]) -> Path:
    """Write the files, given by their paths in the folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def contents(folder: Path) -> list[str]:
    """Return the paths of all files below the folder."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
