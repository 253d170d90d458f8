"""The files of a TIMIT corpus: a folder or an archive, in the layout of LDC or of the public sample."""

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gradwalk.data import archive

# LDC: TIMIT/TRAIN/DR1/FCJF0/SA1.WAV; the sample: dr1-fvmh0/sa1.wav. Some copies have SA1.WAV.wav.
_UTTERANCE = re.compile(
    r"(?:^|/)(?:(?P<part>train|test)/)?dr[1-8][-/](?P<speaker>[mf][a-z]{3}[0-9])/(?P<sentence>s[aix][0-9]+)"
    r"\.(?P<kind>phn|wav)(?:\.wav)?$"
)
_ENDINGS = (".tar.gz", ".tgz", ".tar", ".zip")
PLACES = ("timit", "TIMIT", *(f"{name}{ending}" for name in ("timit", "TIMIT", "timit_sample") for ending in _ENDINGS))
_DEEPEST = 8  # levels of folders that are searched

_Match = re.Match[str]


@dataclass(frozen=True, order=True)
class Utterance:
    """One recording. part: "train", "test", or "" if the corpus is not divided."""

    part: str
    speaker: str
    sentence: str


@dataclass(frozen=True)
class File:
    """One file of an utterance. kind: "phn" or "wav". origin: its path, for messages."""

    utterance: Utterance
    kind: str
    origin: str
    content: bytes


def locate(folder: Path, itself: bool = True) -> Path | None:
    """Return the path of the corpus in `folder`, under one of its usual names; None if there is none.

    itself: whether `folder` may itself be the corpus. A file is always returned as it is.
    """
    if folder.is_file():
        return folder
    named = [folder / place for place in PLACES if (folder / place).exists()]
    places = [*named, folder] if itself else named
    return next((place for place in places if place.is_file() or any(_paths(place))), None)


def count(source: Path) -> int:
    """Return the number of files that `files` yields."""
    if source.is_dir():
        return sum(1 for _ in _paths(source))
    return sum(1 for _ in archive.members(source, _is_utterance))


def files(source: Path) -> Iterator[File]:
    """Yield the files of the utterances, and skip all others; an archive is read to its end."""
    if source.is_dir():
        for path, match in _paths(source):
            archive.check_size(str(path), path.stat().st_size)
            yield _file(match, str(path), path.read_bytes())
        return
    for name, content in archive.members(source, _is_utterance):
        if found := _match(name):
            yield _file(found, f"{source}: {name}", content)


def listing(source: Path) -> str:
    """Return a digest of the names, sizes and modification times of the corpus's files, to notice changes."""
    paths = [path for path, _ in _paths(source)] if source.is_dir() else [source]
    stats = [(path, path.stat()) for path in sorted(paths)]
    facts = [(path.relative_to(source).as_posix(), stat.st_size, stat.st_mtime_ns) for path, stat in stats]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _paths(source: Path) -> Iterator[tuple[Path, _Match]]:
    for folder, inner, names in os.walk(source, followlinks=True):
        below = Path(folder).relative_to(source)
        inner[:] = sorted(inner) if len(below.parts) < _DEEPEST else []
        for name in sorted(names):
            if match := _match((below / name).as_posix()):
                yield Path(folder) / name, match


def _is_utterance(path: str) -> bool:
    return _match(path) is not None


def _match(path: str) -> _Match | None:
    return _UTTERANCE.search(path.lower())


def _file(match: _Match, origin: str, content: bytes) -> File:
    return File(Utterance(match["part"] or "", match["speaker"], match["sentence"]), match["kind"], origin, content)
