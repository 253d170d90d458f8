"""Records in a file with one JSON line each, so that an interrupted experiment goes on where it stopped."""

import hashlib
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import gradwalk
from zoo.case import Case
from zoo.training import Record


class Key(NamedTuple):
    """What a record is of; source is "" where gradwalk has no part in it."""

    model: str
    seed: int
    what: str
    digest: str
    source: str

    @classmethod
    def of(cls, case: Case, seed: int, what: str) -> "Key":
        """Return the key of a record of the current code."""
        return cls(case.name, seed, what, case.digest, "" if what == "own" else source())


class Store:
    """The records in a file, by their keys."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._records: dict[Key, Record] = {}
        for line in map(json.loads, lines):
            self._records[Key(**line["key"])] = line["record"]

    def get(self, key: Key) -> Record | None:
        """Return a record, None if there is none."""
        return self._records.get(key)

    def put(self, key: Key, record: Record) -> None:
        """Keep a record, in the file too."""
        self._records[key] = record
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps({"key": key._asdict(), "record": record}) + "\n")


def _folder() -> Path:
    return Path(gradwalk.__file__).parent


@cache
def source() -> str:
    """Return a digest of gradwalk's source code."""
    files = sorted(_folder().rglob("*.py"))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]


def commit() -> str:
    """Return the commit of gradwalk's source code, and whether it has changed since."""
    git = ["git", "-C", str(_folder())]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    changes = subprocess.run([*git, "status", "--porcelain", "."], capture_output=True, text=True, check=True)
    return head.stdout.strip() + (" with changes" if changes.stdout.strip() else "")
