"""TIMIT gives the same frames, phones and splits from every layout, container and audio format."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.file_trees import put
from helpers.toy_speech import (
    TEST,
    TRAIN,
    ldc_files,
    pack,
    riff,
    sample_files,
    sphere,
    tape,
    transcript,
    voice,
    without,
)

from gradwalk import data
from gradwalk.cli.data import list_data
from gradwalk.data import audio, corpus, phones, store, timit

pytestmark = pytest.mark.usefixtures("cache")
REAL = os.environ.get("GRADWALK_DATA")


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Path:
    """A data folder with a link to the real sample, which is read-only."""
    if not REAL or not (Path(REAL) / "timit_sample.tar.gz").is_file():
        pytest.skip("GRADWALK_DATA has no timit_sample.tar.gz")
    folder = tmp_path_factory.mktemp("real")
    (folder / "timit_sample.tar.gz").symlink_to(Path(REAL).resolve() / "timit_sample.tar.gz")
    return folder


# Corpora


def test_every_layout_container_and_format_gives_the_same_numbers(tmp_path: Path) -> None:
    twice = {f"{name}.wav": content for name, content in ldc_files(riff).items() if name.endswith(".WAV")}
    renamed = {name: content for name, content in ldc_files().items() if not name.endswith(".WAV")} | twice
    corpora = {
        "sample": put(tmp_path / "sample", sample_files()),
        "sample, RIFF": put(tmp_path / "riff", sample_files(riff)),
        "tar": tape(tmp_path / "some" / "archive.tar.gz", sample_files()),
        "folder with tar": tape(tmp_path / "tar" / "timit_sample.tar.gz", sample_files()).parent,
        "zip": pack(tmp_path / "timit.zip", sample_files()),
        "LDC": put(tmp_path / "ldc", ldc_files()),
        "LDC, RIFF": put(tmp_path / "ldc_riff", ldc_files(riff)),
        "LDC, both": put(tmp_path / "ldc_both", ldc_files() | twice),
        "LDC, renamed": put(tmp_path / "ldc_renamed", renamed),
        "timit in it": put(tmp_path / "outer" / "timit", sample_files()).parent,
    }
    sets = {name: data.load("timit", folder=folder) for name, folder in corpora.items()}
    first = sets["sample"]
    for name, loaded in sets.items():
        assert loaded.name == ("TIMIT" if "LDC" in name else "TIMIT sample")
        for one, other in ((loaded.train, first.train), (loaded.test, first.test)):
            for part in ("frames", "labels", "centres", "bounds"):
                np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
    assert len({loaded.digest for name, loaded in sets.items() if "LDC" not in name}) == 1
    assert len({loaded.digest for name, loaded in sets.items() if "LDC" in name}) == 1


def test_examples_are_the_labelled_frames_in_the_bounds_of_their_utterances(tmp_path: Path) -> None:
    loaded = data.load("timit", folder=put(tmp_path / "sample", sample_files()), scaling="none")
    # the utterances of faem0 have 4160 samples and 24 frames, those of mcpm0 4000 and 23; faem0 is first when sorted
    assert len(loaded.train.frames) == 2 * 23 + 2 * 24
    first, segments = voice(9 + 3, 4160), phones.parse(transcript(4160), "")  # faem0, place 1, sa1
    np.testing.assert_array_equal(loaded.train.frames[:24], audio.features(first, "log-mel"))
    np.testing.assert_array_equal(loaded.train.labels[:24], phones.at(segments, audio.centres(24)))
    assert np.unique(loaded.train.bounds, axis=0).tolist() == [[0, 23], [24, 47], [48, 70], [71, 93]]
    assert loaded.train.width == 15 * 120
    rows = loaded.train.inputs(np.array([0, 24]))
    np.testing.assert_array_equal(rows[1, : 7 * 120], np.tile(loaded.train.frames[24], 7))  # none of the one before
    np.testing.assert_array_equal(rows[0, 7 * 120 :], loaded.train.frames[:8].ravel())


def test_the_glottal_stop_is_only_context_once_folded(tmp_path: Path) -> None:
    folder = put(tmp_path / "sample", sample_files())
    whole, folded = data.load("timit", folder=folder), data.load("timit", folder=folder, phones=39)
    q = phones.PHONES.index("q")
    assert (whole.train.labels == q).sum() == len(whole.train) - len(folded.train) > 0
    assert len(folded.train.frames) == len(whole.train.frames)
    names = {phones.names(39)[label] for label in folded.train.labels}
    assert (folded.classes, names) == (39, {"sil", "aa"})


def test_frames_are_standardised_by_the_labelled_ones(tmp_path: Path) -> None:
    loaded = data.load("timit", folder=put(tmp_path / "sample", sample_files()), phones=48, features="mfcc")
    own = loaded.train.frames[loaded.train.centres]
    assert len(own) < len(loaded.train.frames)
    np.testing.assert_allclose(own.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(own.std(axis=0), 1, rtol=1e-4)


def test_the_digest_depends_on_options_and_contents(tmp_path: Path) -> None:
    folder = put(tmp_path / "sample", sample_files())
    choices = [{}, {"phones": 48}, {"context": 3}, {"features": "mfcc"}, {"scaling": "global"}, {"examples": 50}]
    digests = [data.load("timit", folder=folder, **options).digest for options in choices]
    changed = sample_files()
    changed["dr1-mcpm0/sa1.wav"] = sphere(voice(99, 4000))
    digests.append(data.load("timit", folder=put(tmp_path / "other", changed)).digest)
    changed = sample_files()
    changed["dr1-mcpm0/sa1.phn"] = b"0 4000 h#\n"
    digests.append(data.load("timit", folder=put(tmp_path / "another", changed)).digest)
    assert len(set(digests)) == len(digests)


def test_no_speaker_is_in_both_splits(tmp_path: Path) -> None:
    ldc = ldc_files()
    ldc |= {name.replace("TRAIN", "TEST"): content for name, content in ldc.items() if "FAEM0" in name}
    with pytest.raises(ValueError, match=r"must have no speaker in both TRAIN and TEST, got faem0$"):
        data.load("timit", folder=put(tmp_path / "ldc", ldc))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (without(ldc_files(), "TEST"), "must have its utterances in TRAIN and TEST folders, got TRAIN$"),
        (
            without(sample_files(), *TEST),
            "must have TRAIN and TEST folders or, as the public sample, some",
        ),
        (
            without(sample_files(), *TRAIN),
            "must have TRAIN and TEST folders or, as the public sample, some",
        ),
        (without(sample_files(), "dr1-mcpm0/sa1.phn"), r"has no transcription \(\.phn\) of mcpm0/sa1$"),
        (without(sample_files(), "dr1-mcpm0/sa1.wav"), r"has no recording \(\.wav\) of mcpm0/sa1$"),
        (sample_files() | {"dr1-mcpm0/sa1.wav": b"nothing"}, r"dr1-mcpm0/sa1\.wav must be SPHERE or RIFF audio"),
        (sample_files() | {"dr1-mcpm0/sa1.phn": b"nothing"}, r"line 1 of .*dr1-mcpm0/sa1\.phn must read"),
    ],
)
def test_an_incomplete_corpus_is_refused_in_one_sentence(tmp_path: Path, cache: Path, files, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^data: .*{message}"):
        data.load("timit", folder=put(tmp_path / "bad", files))
    assert not cache.exists()


@pytest.mark.parametrize("name", ["timit.tar.gz", "timit.zip"])
def test_a_corrupt_archive_is_named(tmp_path: Path, cache: Path, name: str) -> None:
    path = (tape if name.endswith("gz") else pack)(tmp_path / name, sample_files())
    good = path.read_bytes()
    for wrong in (good[: len(good) // 2], b"not an archive"):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=rf"^data: .*{name} is corrupt or not an archive \("):
            data.load("timit", folder=path)
    assert not cache.exists()


def test_invalid_options_are_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"^timit: phones must be 61, 48 or 39, got phones=40$"):
        data.load("timit", phones=40)
    with pytest.raises(ValueError, match=r'^timit: features must be "log-mel" or "mfcc", got features=\'plp\'$'):
        data.load("timit", features="plp")
    with pytest.raises(ValueError, match=r"^timit: context must be at least 0, got context=-1$"):
        data.load("timit", context=-1)


def test_without_a_corpus_the_message_explains_how_to_get_one(cache: Path) -> None:
    for attempt in (data.load, data.fetch):
        with pytest.raises(
            FileNotFoundError, match=r"^data: TIMIT is not in .*LDC93S1.*timit_sample.*digits"
        ) as caught:
            attempt("timit")
        assert "`gradwalk data fetch timit --from FOLDER`" in str(caught.value)
    assert not cache.exists()


# The cache


def test_a_corpus_is_converted_once_until_it_changes(cache: Path, monkeypatch) -> None:
    put(cache / "timit", sample_files())
    first = data.load("timit")
    (path,) = (cache / "converted").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(audio, "samples", None)
        again = data.load("timit", phones=48, context=2)
        assert again.train.width == 5 * 120
    os.utime(cache / "timit" / "dr1-mcpm0" / "sa1.phn", (1, 1))
    assert data.load("timit").digest == first.digest  # the same contents, converted again
    assert len(list((cache / "converted").iterdir())) == 2
    assert path.exists()


def test_a_corrupt_conversion_is_replaced(cache: Path) -> None:
    put(cache / "timit", sample_files())
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


def test_a_fetched_corpus_stays_when_its_folder_goes(tmp_path: Path, cache: Path, capsys, monkeypatch) -> None:
    folder = put(tmp_path / "disc", ldc_files())
    path = data.fetch("timit", folder=folder)
    shutil.rmtree(folder)
    put(cache / "timit", sample_files())  # the fetched corpus takes precedence
    assert [data.load("timit", features=kind).name for kind in audio.FEATURES] == ["TIMIT", "TIMIT"]
    assert data.fetch("timit") == path
    assert listed(capsys)[-1] == "converted"
    monkeypatch.setattr(timit, "VERSION", 2)
    with pytest.raises(ValueError, match=r"^data: .*timit-log-mel\.safetensors was written by another version"):
        data.load("timit")
    monkeypatch.undo()
    monkeypatch.setenv("GRADWALK_DATA", str(cache))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"^data: .*timit-log-mel\.safetensors is corrupt \(.*\); remove it$"):
        data.load("timit")


def test_a_cache_that_cannot_be_written_does_not_stop_a_load(cache: Path) -> None:
    put(cache / "timit", sample_files())
    (cache / "converted").touch()
    assert len(data.load("timit").train) == 94
    with pytest.raises(OSError, match=r"^data: .* cannot be written \("):
        data.fetch("timit")


def test_the_list_shows_the_corpus_and_its_size_once_converted(cache: Path, capsys) -> None:
    put(cache / "timit", sample_files())
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
    loaded = data.load("timit")
    assert loaded.name == "TIMIT sample"
    assert 48_600 <= len(loaded.train) + len(loaded.test) <= 48_699
    assert len(loaded.train.frames) + len(loaded.test.frames) == 48_695
    assert (len(np.unique(loaded.train.labels)), loaded.classes) == (61, 61)
    assert loaded.train.width == 1800
    assert {file.utterance.speaker for file in files} > set(timit.HELD_OUT)
    assert len(np.unique(loaded.train.bounds, axis=0)) == 120
    assert len(np.unique(loaded.test.bounds, axis=0)) == 40
    own = loaded.train.frames[loaded.train.centres].astype(float)
    np.testing.assert_allclose(own.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(own.var(axis=0), 1, rtol=1e-4)
    assert loaded.test.frames.std() == pytest.approx(1, abs=0.05)


def test_the_real_samples_foldings_have_examples_of_every_class(real: Path, monkeypatch) -> None:
    monkeypatch.setenv("GRADWALK_DATA", str(real))
    for count in (48, 39):
        loaded = data.load("timit", phones=count)
        for split in (loaded.train, loaded.test):
            assert np.unique(split.labels).tolist() == list(range(count))


def test_silence_is_the_quietest_of_the_real_phones(real: Path, monkeypatch) -> None:
    monkeypatch.setenv("GRADWALK_DATA", str(real))
    loaded = data.load("timit", phones=39, scaling="none")
    loudness = loaded.train.frames[loaded.train.centres, :40].mean(axis=1)
    means = {name: loudness[loaded.train.labels == label].mean() for label, name in enumerate(phones.names(39))}
    assert min(means, key=means.get) == "sil"
    assert max(means, key=means.get) in {"aa", "ae", "aw", "ay", "ow", "oy", "eh", "ey", "er"}


def test_nothing_of_the_store_is_a_pickle(real: Path, monkeypatch) -> None:
    monkeypatch.setenv("GRADWALK_DATA", str(real))
    data.load("timit")
    for path in (real / "converted").iterdir():
        arrays, facts = store.read(path)
        assert all(array.dtype.kind in "fi" for array in arrays.values())
        assert all(isinstance(value, str) for value in facts.values())
