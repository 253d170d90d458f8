"""TIMIT: the phone at the centre of a window of frames, from LDC's corpus or from its public sample."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gradwalk import checks
from gradwalk.data import audio, corpus, phones, store
from gradwalk.data.corpus import Utterance
from gradwalk.data.examples import Dataset, Examples, Frames, Scaling, check_options, fingerprint, prepare
from gradwalk.data.source import DataSource, Folder, Holding, size_of
from gradwalk.progress import progress

# Two women and two men of four dialects among the 16 speakers of the public sample; the other 12 use all 61 phones.
# LDC's corpus has a folder TEST instead.
HELD_OUT = ("fvmh0", "madc0", "ftlg0", "madd0")
SAMPLE_NAME = "TIMIT sample"
_PARTS = ("train", "test")
_SAMPLE = (160, "431e54fcacbb4538")  # utterances of the public sample, and the digest of their content
VERSION = 1  # of the conversion; to be increased when its numbers change
_WIDEST = 1000  # frames of context on each side


class _Recording(NamedTuple):
    frames: Frames
    content: str  # a digest of the samples


def _load(
    *,
    examples: int | None = None,
    scaling: Scaling = "dimension",
    folder: Folder = None,
    phones: int = 61,
    features: str = "log-mel",
    context: int = 7,
) -> Dataset:
    """Return TIMIT as frames to classify: the phone at the centre of 2 context + 1 frames of 25 ms, 10 ms apart.

    phones: 61, or their foldings to 48 or 39, which have no examples of the glottal stop. features: "log-mel" (40
    bands) or "mfcc" (13 coefficients), each with delta and delta-delta. folder: LDC's tree or the public sample,
    unpacked or as an archive (default: the corpus that was fetched, or the one in the data folder). No speaker is in
    both splits. A frame whose centre is outside the transcription is context, never an example. The public sample is
    named "TIMIT sample".
    """
    check_options(examples, scaling)
    classes = _folding(phones)
    width = checks.whole("timit", "context", context, least=0, most=_WIDEST)
    checks.one_of("timit", "features", features, audio.FEATURES)
    _, arrays, facts = _converted(features, folder, store.try_save)
    train, test = (_examples(arrays, part, classes, width) for part in _PARTS)
    settings = {"version": VERSION, "features": features, "phones": classes, "context": width}
    return prepare(facts["name"], train, test, classes, examples, scaling, content=facts["content"], **settings)


def _fetch(folder: Folder = None) -> Path:
    """Convert the corpus with every kind of features, and return the path of the first.

    A corpus fetched from a folder is the one that is loaded from then on, whether or not that folder still exists.
    """
    if folder is None:
        path, *_ = [_converted(kind, None, store.save)[0] for kind in audio.FEATURES]
        return path
    source = _source(folder)
    for kind in audio.FEATURES:
        store.save(_fetched(kind), *_convert(source, kind))
    return _fetched(audio.FEATURES[0])


def _holding() -> Holding:
    fetched = _fetched(audio.FEATURES[0])
    place = fetched if fetched.is_file() else corpus.locate(store.where(), itself=False)
    if place is None:
        return Holding()
    path = fetched if place == fetched else _cached(place, audio.FEATURES[0])
    try:
        facts = store.read_facts(path)
    except (FileNotFoundError, ValueError):
        return Holding(place, size_of(place))
    return Holding(place, size_of(place), int(facts["train"]), int(facts["test"]), contents=facts["name"])


SOURCE = DataSource(
    "timit",
    _load,
    title="TIMIT",
    contents="phones",
    fetch=_fetch,
    holding=_holding,
    options=("phones", "features", "context"),
)


def _fetched(kind: str) -> Path:
    """Return the path of the conversion that `_fetch` makes from a folder."""
    return store.converted(f"timit-{kind}")


def _cached(source: Path, kind: str) -> Path:
    """Return the path of the conversion of this corpus, which depends on the state of its files."""
    return store.converted(f"timit-{kind}-{corpus.listing(source)}-{VERSION}")


def _folding(count: int) -> int:
    if isinstance(count, bool) or count not in phones.FOLDINGS:
        raise ValueError(f"timit: phones must be 61, 48 or 39, got phones={count!r}")
    return count


def _converted(kind: str, folder: Folder, save: store.Save) -> tuple[Path, store.Arrays, dict[str, str]]:
    """Return the path, arrays and facts of a converted corpus: the fetched one, or that of the corpus in `folder`."""
    if folder is None and _fetched(kind).exists():
        return _fetched(kind), *_read_fetched(_fetched(kind))
    source = _source(folder)
    path = _cached(source, kind)
    try:
        arrays, facts = store.read(path)
    except (FileNotFoundError, ValueError):
        arrays, facts = _convert(source, kind)
        save(path, arrays, facts)
    return path, arrays, facts


def _read_fetched(path: Path) -> tuple[store.Arrays, dict[str, str]]:
    """Return the fetched corpus; if it is corrupt or outdated, raise: the corpus in the data folder may differ."""
    arrays, facts = store.read(path)
    if facts["version"] != str(VERSION):
        raise ValueError(f"data: {path} was written by another version of gradwalk; fetch it again or remove it")
    return arrays, facts


def _source(folder: Folder) -> Path:
    """Return the path of the corpus in `folder` or, if it is None, in the data folder."""
    source = corpus.locate(store.where(), itself=False) if folder is None else corpus.locate(store.existing(folder))
    if source is not None:
        return source
    if folder is not None:
        raise FileNotFoundError(
            f"data: TIMIT is not in {folder}: it must have files such as TRAIN/DR1/FCJF0/SA1.WAV and SA1.PHN, as LDC's "
            f"corpus does, or dr1-fvmh0/sa1.wav and sa1.phn, as the public sample does"
        )
    raise FileNotFoundError(
        f"data: TIMIT is not in {store.where()}, and being licensed (LDC93S1) it cannot be downloaded: put LDC's tree "
        f"there as timit/, or the public sample (NLTK's corpus timit) as timit_sample.tar.gz or timit.zip, or run "
        f"`gradwalk data fetch timit --from FOLDER` once; the data set digits needs no network"
    )


def _convert(source: Path, kind: str) -> tuple[store.Arrays, dict[str, str]]:
    """Return the frames, the phones at their centres and the lengths of the utterances of both parts, with facts."""
    recordings, segments = _read(source, kind)
    for utterance in sorted(recordings.keys() ^ segments.keys()):
        missing = "transcription (.phn)" if utterance in recordings else "recording (.wav)"
        raise ValueError(f"data: {source} has no {missing} of {utterance.speaker}/{utterance.sentence}")
    name, parts = _split(sorted(recordings), source)
    arrays: store.Arrays = {}
    for part, members in parts.items():
        frames = [recordings[member].frames for member in members]
        labels = [phones.at(segments[member], audio.centres(len(recordings[member].frames))) for member in members]
        arrays[f"{part}_frames"], arrays[f"{part}_phones"] = np.concatenate(frames), np.concatenate(labels)
        arrays[f"{part}_lengths"] = np.array([len(utterance) for utterance in labels])
    contents = [(u.part, u.speaker, u.sentence, recordings[u].content, segments[u]) for u in sorted(recordings)]
    content = fingerprint(utterances=contents)
    if name == SAMPLE_NAME and len(recordings) == _SAMPLE[0] and content != _SAMPLE[1]:
        raise ValueError(f"data: {source} is not the known public sample (digest {content}); get it again")
    counts = {part: str((arrays[f"{part}_phones"] != phones.NONE).sum()) for part in _PARTS}
    return arrays, {"name": name, "content": content, "version": str(VERSION), **counts}


def _read(source: Path, kind: str) -> tuple[dict[Utterance, _Recording], dict[Utterance, list[phones.Segment]]]:
    """Return the recordings and the transcriptions of a corpus."""
    recordings: dict[Utterance, _Recording] = {}
    segments: dict[Utterance, list[phones.Segment]] = {}
    with progress(f"{kind} of TIMIT", corpus.count(source)) as job:
        for file in corpus.files(source):
            if file.kind == "phn":
                segments[file.utterance] = phones.parse(file.content.decode("ascii", "replace"), file.origin)
            elif file.utterance not in recordings:  # a copy may have a recording twice, as SPHERE and as RIFF
                samples = audio.samples(file.content, file.origin)
                content = hashlib.sha256(samples.tobytes()).hexdigest()
                recordings[file.utterance] = _Recording(audio.features(samples, kind), content)
            job.advance(1)
    return recordings, segments


def _split(utterances: Sequence[Utterance], source: Path) -> tuple[str, dict[str, list[Utterance]]]:
    """Return the name of the corpus and the utterances of its training and test parts, which share no speaker."""
    folders = {utterance.part for utterance in utterances}
    if folders not in ({"train", "test"}, {""}):
        listed = ", ".join(sorted(folder.upper() or "neither" for folder in folders))
        raise ValueError(f"data: {source} must have its utterances in TRAIN and TEST folders, got {listed}")
    parts: dict[str, list[Utterance]] = {part: [] for part in _PARTS}
    for utterance in utterances:
        held_out = "test" if utterance.speaker in HELD_OUT else "train"
        parts[utterance.part or held_out].append(utterance)
    if shared := {u.speaker for u in parts["train"]} & {u.speaker for u in parts["test"]}:
        raise ValueError(f"data: {source} must have no speaker in both TRAIN and TEST, got {', '.join(sorted(shared))}")
    if not all(parts.values()):
        raise ValueError(
            f"data: {source} must have TRAIN and TEST folders or, as the public sample, some of the held-out speakers "
            f"{', '.join(HELD_OUT)} and some others"
        )
    return "TIMIT" if folders != {""} else SAMPLE_NAME, parts


def _examples(arrays: store.Arrays, part: str, classes: int, context: int) -> Examples:
    """Return the labelled frames of one part, each within the bounds of its own utterance."""
    labels, lengths = phones.folded(arrays[f"{part}_phones"], classes), arrays[f"{part}_lengths"]
    centres = np.flatnonzero(labels != phones.NONE)
    ends = np.cumsum(lengths)
    bounds = np.repeat(np.stack([ends - lengths, ends - 1], axis=1), lengths, axis=0)
    return Examples(arrays[f"{part}_frames"], labels[centres], context, centres, bounds[centres])
