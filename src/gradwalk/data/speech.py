"""TIMIT: the phone at the centre of a window of frames, from LDC's corpus or from the public sample of it."""

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

# Two women and two men of four dialects among the sample's 16 speakers, such that the 12 others say all 61 phones.
# LDC's corpus says itself who is held out: its TEST folder.
HELD_OUT = ("fvmh0", "madc0", "ftlg0", "madd0")
_PARTS = ("train", "test")
_VERSION = 1  # of the conversion: raised when its numbers change
_WIDEST = 1000  # frames of context on each side


class _Spoken(NamedTuple):
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
    settings = {"version": _VERSION, "features": features, "phones": classes, "context": width}
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
    return store.converted(f"timit-{kind}-{corpus.listing(source)}-{_VERSION}")


def _folding(count: int) -> int:
    if isinstance(count, bool) or count not in phones.FOLDINGS:
        raise ValueError(f"timit: phones must be 61, 48 or 39, got phones={count!r}")
    return count


def _converted(kind: str, folder: str | Path | None, save: store.Save) -> tuple[Path, store.Arrays, dict[str, str]]:
    """Return the converted corpus and its place: the fetched one, or one made for the corpus that lies there."""
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
    """Return what was fetched. Damaged or outdated it is named: the corpus in the data folder may be another one."""
    arrays, facts = store.read(path)
    if facts["version"] != str(_VERSION):
        raise ValueError(f"data: {path} is of another version of gradwalk; fetch it anew, or remove it")
    return arrays, facts


def _source(folder: str | Path | None) -> Path:
    source = corpus.locate(store.where(), itself=False) if folder is None else corpus.locate(store.existing(folder))
    if source is not None:
        return source
    if folder is not None:
        raise FileNotFoundError(
            f"data: there is no TIMIT in {folder}: it must hold TRAIN/DR1/FCJF0/SA1.WAV and SA1.PHN and so on, as LDC "
            f"has it, or dr1-fvmh0/sa1.wav as the public sample has it"
        )
    raise FileNotFoundError(
        f"data: TIMIT is not in {store.where()}, and being licensed (LDC93S1) it cannot be downloaded: put LDC's tree "
        f"there as timit/, or the public sample (NLTK's corpus timit) as timit_sample.tar.gz or timit.zip, or run "
        f"`gradwalk data fetch timit --from FOLDER` once; the data set digits needs no network"
    )


def _convert(source: Path, kind: str) -> tuple[store.Arrays, dict[str, str]]:
    """Return the frames, the phones at their centres and the lengths of the utterances of both parts, and the facts."""
    spoken, segments = _read(source, kind)
    for utterance in sorted(spoken.keys() ^ segments.keys()):
        lacks = "transcription (.phn)" if utterance in spoken else "recording (.wav)"
        raise ValueError(f"data: {source} has no {lacks} of {utterance.speaker}/{utterance.sentence}")
    name, parts = _split(sorted(spoken), source)
    arrays: store.Arrays = {}
    for part, members in parts.items():
        frames = [spoken[each].frames for each in members]
        labels = [phones.at(segments[each], audio.centres(len(spoken[each].frames))) for each in members]
        arrays[f"{part}_frames"], arrays[f"{part}_phones"] = np.concatenate(frames), np.concatenate(labels)
        arrays[f"{part}_lengths"] = np.array([len(each) for each in labels])
    told = [(each.part, each.speaker, each.sentence, spoken[each].content, segments[each]) for each in sorted(spoken)]
    counts = {part: str((arrays[f"{part}_phones"] != phones.NONE).sum()) for part in _PARTS}
    return arrays, {"name": name, "content": fingerprint(utterances=told), "version": str(_VERSION), **counts}


def _read(source: Path, kind: str) -> tuple[dict[Utterance, _Spoken], dict[Utterance, list[phones.Segment]]]:
    """Return the recordings as frames, and the transcriptions."""
    spoken: dict[Utterance, _Spoken] = {}
    segments: dict[Utterance, list[phones.Segment]] = {}
    with progress(f"{kind} of TIMIT", corpus.count(source)) as job:
        for file in corpus.files(source):
            if file.kind == "phn":
                segments[file.utterance] = phones.parse(file.content.decode("ascii", "replace"), file.origin)
            elif file.utterance not in spoken:  # a copy may have a recording twice, as SPHERE and as RIFF
                samples = audio.samples(file.content, file.origin)
                content = hashlib.sha256(samples.tobytes()).hexdigest()
                spoken[file.utterance] = _Spoken(audio.features(samples, kind), content)
            job.advance()
    return spoken, segments


def _split(utterances: Sequence[Utterance], source: Path) -> tuple[str, dict[str, list[Utterance]]]:
    """Return the name of the corpus and its utterances by part, none of whose speakers is in both."""
    named = {each.part for each in utterances}
    if named not in ({"train", "test"}, {""}):
        raise ValueError(f"data: {source} must have both a TRAIN and a TEST folder, got {' and '.join(sorted(named))}")
    held = [each.part == "test" or (not each.part and each.speaker in HELD_OUT) for each in utterances]
    parts = {
        part: [each for each, out in zip(utterances, held, strict=True) if out == (part == "test")] for part in _PARTS
    }
    both = {each.speaker for each in parts["train"]} & {each.speaker for each in parts["test"]}
    if both:
        raise ValueError(f"data: {source} must have no speaker in both TRAIN and TEST, got {', '.join(sorted(both))}")
    if not all(parts.values()):
        raise ValueError(
            f"data: {source} must have TRAIN and TEST folders, or some of the public sample's held-out speakers "
            f"({', '.join(HELD_OUT)}) and others beside them"
        )
    return "TIMIT" if "" not in named else "TIMIT sample", parts


def _examples(arrays: store.Arrays, part: str, classes: int, context: int) -> Examples:
    """Return the labelled frames of one part, each within the bounds of its own utterance."""
    labels, lengths = phones.folded(arrays[f"{part}_phones"], classes), arrays[f"{part}_lengths"]
    centres = np.flatnonzero(labels != phones.NONE)
    ends = np.cumsum(lengths)
    bounds = np.repeat(np.stack([ends - lengths, ends - 1], axis=1), lengths, axis=0)
    return Examples(arrays[f"{part}_frames"], labels[centres], context, centres, bounds[centres])
