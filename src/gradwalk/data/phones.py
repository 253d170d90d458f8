"""TIMIT's 61 phones, their foldings to 48 and 39 (Lee & Hon 1989), and the phone at the centre of a frame."""

import bisect
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gradwalk.data.examples import Labels

FOLDINGS = (61, 48, 39)
NONE = -1  # the label of a frame outside the transcription, or of a phone that the folding drops

# The phones that are renamed in the folding to 48. The glottal stop q is dropped: Lee & Hon leave it out of both
# foldings, so its frames are context and never examples.
_TO_48 = {
    "ax-h": "ax",
    "axr": "er",
    "bcl": "vcl",
    "dcl": "vcl",
    "gcl": "vcl",
    "pcl": "cl",
    "tcl": "cl",
    "kcl": "cl",
    "em": "m",
    "eng": "ng",
    "nx": "n",
    "hv": "hh",
    "ux": "uw",
    "h#": "sil",
    "pau": "sil",
    "q": None,
}
# Those of the 48 that are renamed in the folding to 39.
_TO_39 = {
    "ao": "aa",
    "ax": "ah",
    "ix": "ih",
    "el": "l",
    "en": "n",
    "zh": "sh",
    "cl": "sil",
    "vcl": "sil",
    "epi": "sil",
}
_ALL = (
    "aa ae ah ao aw ax ax-h axr ay b bcl ch d dcl dh dx eh el em en eng epi er ey f g gcl h# hh hv ih ix iy jh k kcl "
    "l m n ng nx ow oy p pau pcl q r s sh t tcl th uh uw ux v w y z zh"
)
PHONES = tuple(_ALL.split())


class Segment(NamedTuple):
    """A phone that lasts from sample `start` up to, but not including, sample `end`."""

    start: int
    end: int
    phone: str


def fold(phone: str, count: int) -> str | None:
    """Return the name of the phone in the folding to `count` (61, 48 or 39) phones, None if it is dropped.

    >>> fold("zh", 48), fold("zh", 39), fold("q", 39)
    ('zh', 'sh', None)
    """
    if count == 61:
        return phone
    name = _TO_48.get(phone, phone)
    return name if name is None or count == 48 else _TO_39.get(name, name)


def names(count: int) -> tuple[str, ...]:
    """Return the phones of a folding in the order of their labels.

    >>> [len(names(count)) for count in FOLDINGS]
    [61, 48, 39]
    """
    return tuple(sorted({name for phone in PHONES if (name := fold(phone, count)) is not None}))


def folded(labels: Labels, count: int) -> Labels:
    """Return labels of the 61 phones as labels of a folding, NONE for a phone that it drops."""
    place = {name: index for index, name in enumerate(names(count))}
    table = [NONE if (name := fold(phone, count)) is None else place[name] for phone in PHONES]
    return np.array([*table, NONE])[labels]  # NONE is -1, so it selects the last entry


def parse(text: str, origin: str) -> list[Segment]:
    """Return the segments of a .phn file, which has one line `start end phone` per segment, in temporal order."""
    segments: list[Segment] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            start, end, phone = line.split()
            segment = Segment(int(start), int(end), phone.lower())
        except ValueError:
            raise ValueError(f"data: line {number} of {origin} must read `start end phone`, got {line!r}") from None
        if segment.phone not in PHONES:
            raise ValueError(f"data: line {number} of {origin} must have one of the 61 phones, got {phone!r}")
        if segment.end <= segment.start or (segments and segment.start < segments[-1].start):
            raise ValueError(f"data: line {number} of {origin} must be in temporal order, got {line!r}")
        segments.append(segment)
    if not segments:
        raise ValueError(f"data: {origin} must have at least one segment, got none")
    return segments


def at(segments: Sequence[Segment], samples: Labels) -> Labels:
    """Return the label (of 61) of the segment that contains each sample, NONE outside all segments.

    >>> at([Segment(0, 300, "h#"), Segment(300, 500, "aa")], np.array([200, 360, 520])).tolist()
    [27, 0, -1]
    """
    starts = np.array([segment.start for segment in segments])
    ends = np.array([segment.end for segment in segments])
    labels = np.array([bisect.bisect_left(PHONES, segment.phone) for segment in segments])
    index = np.searchsorted(starts, samples, side="right") - 1
    return np.where((index >= 0) & (samples < ends[index]), labels[index], NONE)
