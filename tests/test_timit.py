"""TIMIT's frames, phones and splits are right, whatever the layout, the container and the audio format."""

import io
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from gradwalk import data
from gradwalk.cli.data import list_data
from gradwalk.data import audio, corpus, phones, speech, store
from gradwalk.data.phones import NONE, Segment

pytestmark = pytest.mark.usefixtures("cache")
REAL = os.environ.get("GRADWALK_DATA")
TRAIN, TEST = ("mcpm0", "faem0"), ("fvmh0", "madd0")  # the sample's own names decide who is held out
SENTENCES = ("sa1", "si42")


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Path:
    """A data folder that leads to the real sample, and is not theirs to be written to."""
    if not REAL or not (Path(REAL) / "timit_sample.tar.gz").is_file():
        pytest.skip("GRADWALK_DATA names no folder with timit_sample.tar.gz")
    folder = tmp_path_factory.mktemp("real")
    (folder / "timit_sample.tar.gz").symlink_to(Path(REAL).resolve() / "timit_sample.tar.gz")
    return folder


def voice(seed: int, count: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(count) * 1000).astype(np.int16)


def riff(values: np.ndarray, rate: int = 16_000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, values, rate, format="WAV", subtype="PCM_16")
    return file.getvalue()


def sphere(values: np.ndarray, order: str = "01", coding: str = "pcm", rate: int = 16_000) -> bytes:
    lines = [f"sample_count -i {len(values)}", f"sample_rate -i {rate}", "channel_count -i 1", "sample_n_bytes -i 2"]
    lines += [f"sample_byte_format -s2 {order}", "sample_sig_bits -i 16", f"sample_coding -s{len(coding)} {coding}"]
    header = "\n".join(["NIST_1A", "   1024", *lines, "end_head\n"]).encode()
    return header.ljust(1024, b" ") + values.astype("<i2" if order == "01" else ">i2").tobytes()


def transcript(count: int) -> str:
    """Silence, a vowel, a glottal stop and silence again, up to the last sample."""
    edges = [0, 700, 1600, 2200, count]
    return "".join(f"{a} {b} {p}\n" for a, b, p in zip(edges, edges[1:], ("h#", "aa", "q", "h#"), strict=False))


def sample_files(encode=sphere, speakers=(*TRAIN, *TEST)) -> dict[str, bytes]:
    """A small corpus in the layout of the public sample: path to content."""
    files = {"README": b"not speech"}
    for place, speaker in enumerate(speakers):
        for sentence in SENTENCES:
            count, path = 4000 + 160 * place, f"dr{place + 1}-{speaker}/{sentence}"
            files[f"{path}.wav"] = encode(voice(place * 9 + len(sentence), count))
            files[f"{path}.phn"] = transcript(count).encode()
    return files


def ldc_files(encode=sphere) -> dict[str, bytes]:
    """The same recordings in LDC's layout."""
    files = {}
    for path, content in sample_files(encode).items():
        folder, _, name = path.partition("/")
        dialect, _, speaker = folder.partition("-")
        part = "TEST" if speaker in TEST else "TRAIN"
        files[f"TIMIT/{part}/{dialect}/{speaker}/{name}".upper() if name else path] = content
    return files


def plant(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def tape(path: Path, files: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in reversed(files.items()):
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def pack(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"timit/{name}", content)
    return path


# Phones


def test_the_foldings_have_61_48_and_39_phones() -> None:
    assert [len(phones.names(count)) for count in (61, 48, 39)] == [61, 48, 39]
    assert phones.names(61) == phones.PHONES == tuple(sorted(phones.PHONES))


def test_the_39_are_the_groups_of_lee_and_hon() -> None:
    groups: dict[str | None, set[str]] = {}
    for phone in phones.PHONES:
        groups.setdefault(phones.fold(phone, 39), set()).add(phone)
    expected = (
        {"aa", "ao"},
        {"ah", "ax", "ax-h"},
        {"er", "axr"},
        {"hh", "hv"},
        {"ih", "ix"},
        {"l", "el"},
        {"m", "em"},
        {"n", "en", "nx"},
        {"ng", "eng"},
        {"sh", "zh"},
        {"uw", "ux"},
        {"bcl", "dcl", "gcl", "pcl", "tcl", "kcl", "h#", "pau", "epi"},
    )
    assert {frozenset(group) for group in groups.values() if len(group) > 1} == {frozenset(each) for each in expected}
    assert groups[None] == {"q"}


def test_the_48_keep_what_lee_and_hon_keep_apart_in_training() -> None:
    groups: dict[str | None, set[str]] = {}
    for phone in phones.PHONES:
        groups.setdefault(phones.fold(phone, 48), set()).add(phone)
    assert groups["cl"] == {"pcl", "tcl", "kcl"}
    assert groups["vcl"] == {"bcl", "dcl", "gcl"}
    assert groups["sil"] == {"h#", "pau"}
    assert groups["epi"] == {"epi"}
    assert {"ao", "ax", "ix", "el", "en", "zh"} <= groups.keys()
    assert groups[None] == {"q"}


def test_labels_fold_as_their_names_do() -> None:
    labels = np.array([*range(61), NONE])
    for count in phones.FOLDINGS:
        folded = phones.folded(labels, count)
        for phone, label in zip(phones.PHONES, folded[:-1], strict=True):
            assert (phones.names(count)[label] if label != NONE else None) == phones.fold(phone, count)
        assert folded[-1] == NONE


def test_a_frame_has_the_phone_at_its_centre() -> None:
    # centres: 200, 360, 520, 680, 840, 1000
    segments = phones.parse("100 360 h#\n360 521 SH\n\n521 680 iy\n700 1000 t\n", "sa1.phn")
    assert segments[1] == Segment(360, 521, "sh")
    labels = phones.at(segments, audio.centres(6))
    named = [None if label == NONE else phones.PHONES[label] for label in labels]
    assert named == ["h#", "sh", "sh", None, "t", None]  # 680 is in a gap, 1000 past the end
    assert phones.at([Segment(201, 300, "aa")], audio.centres(1)).tolist() == [NONE]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 100 h#\n100 aa\n", "line 2 of sa1.phn must read `start end phone`, got '100 aa'"),
        ("0 x h#\n", "line 1 of sa1.phn must read `start end phone`, got '0 x h#'"),
        ("0 100 zz\n", "line 1 of sa1.phn must name a phone of TIMIT, got 'zz'"),
        ("0 100 h#\n100 100 aa\n", "line 2 of sa1.phn must go forward in time, got '100 100 aa'"),
        ("50 100 h#\n0 40 aa\n", "line 2 of sa1.phn must go forward in time, got '0 40 aa'"),
        ("\n", "sa1.phn holds no phone"),
    ],
)
def test_a_bad_transcription_is_told_by_its_line(text: str, said: str) -> None:
    with pytest.raises(ValueError) as told:  # noqa: PT011
        phones.parse(text, "sa1.phn")
    assert str(told.value) == f"data: {said}"


# Audio


@pytest.mark.parametrize("encode", [sphere, lambda values: sphere(values, "10"), riff])
def test_sphere_and_riff_give_the_samples_that_were_written(encode) -> None:
    values = voice(1, 1000)
    np.testing.assert_array_equal(audio.samples(encode(values), "sa1.wav"), values)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (sphere(voice(1, 900), coding="pcm,embedded-shorten-v2.00"), "sa1.wav is SPHERE compressed by shorten; unpack"),
        (sphere(voice(1, 900))[:-500], "sa1.wav is cut short: 1,300 of 1,800 bytes"),
        (riff(voice(1, 900))[:-500], "sa1.wav is cut short: "),
        (riff(voice(1, 900))[:20], "sa1.wav is cut short: "),
        (b"RIFF\x04\0\0\0WAVE", "sa1.wav cannot be read as audio ("),
        (b"NIST_1A\n   1024\n", "sa1.wav cannot be read as audio ("),
        (b"fLaC rest", "sa1.wav must be SPHERE or RIFF audio, got the first bytes b'fLaC res'"),
        (b"", "sa1.wav must be SPHERE or RIFF audio, got the first bytes b''"),
        (riff(voice(1, 900), 8000), "sa1.wav must have 16000 samples a second in 1 channel, got 8000 in 1"),
        (riff(voice(1, 900).reshape(-1, 2)), "sa1.wav must have 16000 samples a second in 1 channel, got 16000 in 2"),
        (sphere(voice(1, 399)), "sa1.wav must last 25 ms at least, got 399 samples"),
    ],
)
def test_audio_that_cannot_be_used_is_told_in_a_sentence(content: bytes, said: str) -> None:
    with pytest.raises(ValueError) as told:  # noqa: PT011
        audio.samples(content, "sa1.wav")
    assert str(told.value).startswith(f"data: {said}")


@pytest.mark.parametrize(("count", "frames"), [(400, 1), (559, 1), (560, 2), (16_000, 98)])
def test_frames_of_25_ms_lie_10_ms_apart_within_the_utterance(count: int, frames: int) -> None:
    assert audio.features(voice(1, count), "log-mel").shape == (frames, 120)
    assert audio.features(voice(1, count), "mfcc").shape == (frames, 39)
    assert audio.centres(frames)[-1] + 200 <= count


def test_a_frame_depends_on_its_own_25_ms_alone() -> None:
    values = voice(1, 4000)
    before = audio.features(values, "log-mel")[:, :40]
    values[1600:1760] = 0
    changed = np.flatnonzero((audio.features(values, "log-mel")[:, :40] != before).any(axis=1))
    assert changed.tolist() == [8, 9, 10]  # frame i has samples 160 i up to 160 i + 400


def test_a_tone_is_loudest_in_the_band_of_its_pitch() -> None:
    time = np.arange(8000) / 16_000
    loudest = []
    for pitch in (300, 1000, 4000):
        tone = (8000 * np.sin(2 * np.pi * pitch * time)).astype(np.int16)
        loudest.append(int(audio.features(tone, "log-mel")[10, :40].argmax()))
    mel = 1127 * np.log1p(np.array([20, 8000, 300, 1000, 4000]) / 700)
    expected = (mel[2:] - mel[0]) / (mel[1] - mel[0]) * 41 - 1  # 40 triangles between 41 equal steps of mel
    np.testing.assert_allclose(loudest, expected, atol=0.75)


def test_deltas_are_the_regression_slope_over_five_frames() -> None:
    static, delta, second = np.split(audio.features(voice(2, 4000), "log-mel"), 3, axis=1)
    for values, slope in ((static, delta), (delta, second)):
        padded = np.pad(values, ((2, 2), (0, 0)), mode="edge")
        count = len(values)
        steps = [n * (padded[2 + n : 2 + n + count] - padded[2 - n : 2 - n + count]) for n in (1, 2)]
        np.testing.assert_allclose(slope, sum(steps) / 10, atol=1e-5)


def test_the_same_samples_give_the_same_numbers() -> None:
    for kind in audio.FEATURES:
        np.testing.assert_array_equal(*(audio.features(voice(2, 4000), kind) for _ in range(2)))


# Corpora


def test_every_layout_container_and_format_gives_the_same_numbers(tmp_path: Path) -> None:
    twice = {f"{name}.wav": content for name, content in ldc_files(riff).items() if name.endswith(".WAV")}
    renamed = {name: content for name, content in ldc_files().items() if not name.endswith(".WAV")} | twice
    corpora = {
        "sample": plant(tmp_path / "sample", sample_files()),
        "sample, RIFF": plant(tmp_path / "riff", sample_files(riff)),
        "tar": tape(tmp_path / "some" / "archive.tar.gz", sample_files()),
        "folder with tar": tape(tmp_path / "tar" / "timit_sample.tar.gz", sample_files()).parent,
        "zip": pack(tmp_path / "timit.zip", sample_files()),
        "LDC": plant(tmp_path / "ldc", ldc_files()),
        "LDC, RIFF": plant(tmp_path / "ldc_riff", ldc_files(riff)),
        "LDC, both": plant(tmp_path / "ldc_both", ldc_files() | twice),
        "LDC, renamed": plant(tmp_path / "ldc_renamed", renamed),
        "timit in it": plant(tmp_path / "outer" / "timit", sample_files()).parent,
    }
    sets = {name: data.load("timit", folder=folder) for name, folder in corpora.items()}
    first = sets["sample"]
    for name, each in sets.items():
        assert each.name == ("TIMIT" if "LDC" in name else "TIMIT sample")
        for one, other in ((each.train, first.train), (each.test, first.test)):
            for part in ("frames", "labels", "centres", "bounds"):
                np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
    assert len({each.digest for name, each in sets.items() if "LDC" not in name}) == 1
    assert len({each.digest for name, each in sets.items() if "LDC" in name}) == 1


def test_examples_are_the_labelled_frames_in_the_bounds_of_their_utterances(tmp_path: Path) -> None:
    timit = data.load("timit", folder=plant(tmp_path / "sample", sample_files()), scaling="none")
    # mcpm0 has 4000 samples and 23 frames an utterance, faem0 4160 and 24; sorted, faem0 comes first
    assert len(timit.train.frames) == 2 * 23 + 2 * 24
    first, segments = voice(9 + 3, 4160), phones.parse(transcript(4160), "")  # faem0, place 1, sa1
    np.testing.assert_array_equal(timit.train.frames[:24], audio.features(first, "log-mel"))
    np.testing.assert_array_equal(timit.train.labels[:24], phones.at(segments, audio.centres(24)))
    assert np.unique(timit.train.bounds, axis=0).tolist() == [[0, 23], [24, 47], [48, 70], [71, 93]]
    assert timit.train.width == 15 * 120
    rows = timit.train.inputs(np.array([0, 24]))
    np.testing.assert_array_equal(rows[1, : 7 * 120], np.tile(timit.train.frames[24], 7))  # nothing of the one before
    np.testing.assert_array_equal(rows[0, 7 * 120 :], timit.train.frames[:8].ravel())


def test_the_glottal_stop_is_context_and_no_example_once_folded(tmp_path: Path) -> None:
    folder = plant(tmp_path / "sample", sample_files())
    whole, folded = data.load("timit", folder=folder), data.load("timit", folder=folder, phones=39)
    q = phones.PHONES.index("q")
    assert (whole.train.labels == q).sum() == len(whole.train) - len(folded.train) > 0
    assert len(folded.train.frames) == len(whole.train.frames)
    names = {phones.names(39)[label] for label in folded.train.labels}
    assert (folded.classes, names) == (39, {"sil", "aa"})


def test_standardising_is_by_feature_of_a_frame_and_by_the_labelled_frames(tmp_path: Path) -> None:
    timit = data.load("timit", folder=plant(tmp_path / "sample", sample_files()), phones=48, features="mfcc")
    own = timit.train.frames[timit.train.centres]
    assert len(own) < len(timit.train.frames)
    np.testing.assert_allclose(own.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(own.std(axis=0), 1, rtol=1e-4)


def test_the_digest_tells_options_and_content_apart(tmp_path: Path) -> None:
    folder = plant(tmp_path / "sample", sample_files())
    chosen = [{}, {"phones": 48}, {"context": 3}, {"features": "mfcc"}, {"scaling": "global"}, {"examples": 50}]
    digests = [data.load("timit", folder=folder, **each).digest for each in chosen]
    changed = sample_files()
    changed["dr1-mcpm0/sa1.wav"] = sphere(voice(99, 4000))
    digests.append(data.load("timit", folder=plant(tmp_path / "other", changed)).digest)
    changed = sample_files()
    changed["dr1-mcpm0/sa1.phn"] = b"0 4000 h#\n"
    digests.append(data.load("timit", folder=plant(tmp_path / "another", changed)).digest)
    assert len(set(digests)) == len(digests)


def test_no_speaker_is_in_both_splits(tmp_path: Path) -> None:
    ldc = ldc_files()
    ldc |= {name.replace("TRAIN", "TEST"): content for name, content in ldc.items() if "FAEM0" in name}
    with pytest.raises(ValueError, match=r"must have no speaker in both TRAIN and TEST, got faem0$"):
        data.load("timit", folder=plant(tmp_path / "ldc", ldc))


def without(files: dict[str, bytes], *words: str) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if not any(word in name for word in words)}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (without(ldc_files(), "TEST"), "must have both a TRAIN and a TEST folder, got train$"),
        (without(sample_files(), *TEST), r"must have TRAIN and TEST folders, or some of the public sample's held-out"),
        (without(sample_files(), *TRAIN), r"must have TRAIN and TEST folders, or some of the public sample's held-out"),
        (without(sample_files(), "dr1-mcpm0/sa1.phn"), r"has no transcription \(\.phn\) of mcpm0/sa1$"),
        (without(sample_files(), "dr1-mcpm0/sa1.wav"), r"has no recording \(\.wav\) of mcpm0/sa1$"),
        (sample_files() | {"dr1-mcpm0/sa1.wav": b"nothing"}, r"dr1-mcpm0/sa1\.wav must be SPHERE or RIFF audio"),
        (sample_files() | {"dr1-mcpm0/sa1.phn": b"nothing"}, r"line 1 of .*dr1-mcpm0/sa1\.phn must read"),
    ],
)
def test_an_incomplete_corpus_is_told_in_a_sentence(tmp_path: Path, cache: Path, files, said: str) -> None:
    with pytest.raises(ValueError, match=rf"^data: .*{said}"):
        data.load("timit", folder=plant(tmp_path / "bad", files))
    assert not cache.exists()


@pytest.mark.parametrize("name", ["timit.tar.gz", "timit.zip"])
def test_a_damaged_archive_is_named(tmp_path: Path, cache: Path, name: str) -> None:
    path = (tape if name.endswith("gz") else pack)(tmp_path / name, sample_files())
    good = path.read_bytes()
    for wrong in (good[: len(good) // 2], b"not an archive"):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=rf"^data: .*{name} is damaged or no archive \("):
            data.load("timit", folder=path)
    assert not cache.exists()


def test_bad_options_are_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"^timit: phones must be 61, 48 or 39, got phones=40$"):
        data.load("timit", phones=40)
    with pytest.raises(ValueError, match=r'^timit: features must be "log-mel" or "mfcc", got features=\'plp\'$'):
        data.load("timit", features="plp")
    with pytest.raises(ValueError, match=r"^timit: context must be at least 0, got context=-1$"):
        data.load("timit", context=-1)


def test_without_a_corpus_the_sentence_says_what_to_do(cache: Path) -> None:
    for attempt in (data.load, data.fetch):
        with pytest.raises(
            FileNotFoundError, match=r"^data: TIMIT is not in .*LDC93S1.*timit_sample.*digits"
        ) as caught:
            attempt("timit")
        assert "`gradwalk data fetch timit --from FOLDER`" in str(caught.value)
    assert not cache.exists()


# The cache


def test_a_corpus_is_converted_once_until_it_changes(cache: Path, monkeypatch) -> None:
    plant(cache / "timit", sample_files())
    first = data.load("timit")
    (path,) = (cache / "converted").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(speech, "_convert", None)
        again = data.load("timit", phones=48, context=2)
        assert again.train.width == 5 * 120
    os.utime(cache / "timit" / "dr1-mcpm0" / "sa1.phn", (1, 1))
    assert data.load("timit").digest == first.digest  # the same content, looked at anew
    assert len(list((cache / "converted").iterdir())) == 2
    assert path.exists()


def test_a_damaged_conversion_is_made_anew_from_the_corpus(cache: Path) -> None:
    plant(cache / "timit", sample_files())
    before = data.load("timit")
    (path,) = (cache / "converted").iterdir()
    good = path.read_bytes()
    path.write_bytes(good[:-200] + bytes(200))
    np.testing.assert_array_equal(data.load("timit").train.frames, before.train.frames)
    assert path.read_bytes() == good


def listed(capsys) -> list[str]:
    """Return the words of TIMIT's line in `gradwalk data list`."""
    list_data()
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("timit"))
    return line.split()


def test_what_was_fetched_from_a_folder_stays_when_the_folder_goes(
    tmp_path: Path, cache: Path, capsys, monkeypatch
) -> None:
    folder = plant(tmp_path / "disc", ldc_files())
    path = data.fetch("timit", folder=folder)
    shutil.rmtree(folder)
    plant(cache / "timit", sample_files())  # what was fetched on purpose comes first
    assert [data.load("timit", features=kind).name for kind in audio.FEATURES] == ["TIMIT", "TIMIT"]
    assert data.fetch("timit") == path
    assert listed(capsys)[-1] == "converted"
    monkeypatch.setattr(speech, "_VERSION", 2)
    with pytest.raises(ValueError, match=r"^data: .*timit-log-mel\.safetensors is of another version of gradwalk; "):
        data.load("timit")
    monkeypatch.undo()
    monkeypatch.setenv("GRADWALK_DATA", str(cache))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"^data: .*timit-log-mel\.safetensors is damaged \(.*\); remove it$"):
        data.load("timit")


def test_a_cache_that_cannot_be_written_does_not_stop_a_load(cache: Path) -> None:
    plant(cache / "timit", sample_files())
    (cache / "converted").touch()
    assert len(data.load("timit").train) == 94
    with pytest.raises(OSError, match=r"^data: .* cannot be written \("):
        data.fetch("timit")


def test_the_list_shows_the_corpus_and_once_converted_its_size(cache: Path, capsys) -> None:
    plant(cache / "timit", sample_files())
    before = listed(capsys)
    assert before[:2] + before[-1:] == ["timit", "phones", "timit"]
    data.load("timit")
    assert listed(capsys)[:5] == ["timit", "TIMIT", "sample", "94", "102"]


# The real sample


def test_the_real_sample_has_160_utterances_61_phones_and_its_frames(real: Path, monkeypatch) -> None:
    monkeypatch.setenv("GRADWALK_DATA", str(real))
    files = list(corpus.files(real / "timit_sample.tar.gz"))
    assert len({file.utterance for file in files}) == 160
    assert {file.kind for file in files} == {"phn", "wav"}
    timit = data.load("timit")
    assert timit.name == "TIMIT sample"
    assert 48_600 <= len(timit.train) + len(timit.test) <= 48_699
    assert len(timit.train.frames) + len(timit.test.frames) == 48_695
    assert (len(np.unique(timit.train.labels)), timit.classes) == (61, 61)
    assert timit.train.width == 1800
    assert {file.utterance.speaker for file in files} > set(speech.HELD_OUT)
    assert len(np.unique(timit.train.bounds, axis=0)) == 120
    assert len(np.unique(timit.test.bounds, axis=0)) == 40
    own = timit.train.frames[timit.train.centres].astype(float)
    np.testing.assert_allclose(own.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(own.var(axis=0), 1, rtol=1e-4)
    assert timit.test.frames.std() == pytest.approx(1, abs=0.05)


def test_the_real_samples_foldings_have_examples_of_every_class(real: Path, monkeypatch) -> None:
    monkeypatch.setenv("GRADWALK_DATA", str(real))
    for count in (48, 39):
        timit = data.load("timit", phones=count)
        for split in (timit.train, timit.test):
            assert np.unique(split.labels).tolist() == list(range(count))


def test_silence_is_the_quietest_of_the_real_phones(real: Path, monkeypatch) -> None:
    monkeypatch.setenv("GRADWALK_DATA", str(real))
    timit = data.load("timit", phones=39, scaling="none")
    loudness = timit.train.frames[timit.train.centres, :40].mean(axis=1)
    means = {name: loudness[timit.train.labels == label].mean() for label, name in enumerate(phones.names(39))}
    assert min(means, key=means.get) == "sil"
    assert max(means, key=means.get) in {"aa", "ae", "aw", "ay", "ow", "oy", "eh", "ey", "er"}


def test_nothing_of_the_store_is_a_pickle(real: Path, monkeypatch) -> None:
    monkeypatch.setenv("GRADWALK_DATA", str(real))
    data.load("timit")
    for path in (real / "converted").iterdir():
        arrays, facts = store.read(path)
        assert all(array.dtype.kind in "fi" for array in arrays.values())
        assert all(isinstance(value, str) for value in facts.values())
