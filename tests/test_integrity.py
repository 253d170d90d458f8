"""What was saved is what is read: a changed bit, a foreign file or a removed folder is told, no number is wrong."""

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace

import pytest
from helpers.interrupt import InterruptAt
from helpers.small_sweep import SMALL, WITH_DIVERGED, numbers
from helpers.toy_speech import pack, sample_files, tape

pytest.importorskip("torch")
pytest.importorskip("pydantic")

import numpy as np
import torch

from gradwalk import activations, cli, nets
from gradwalk.data import corpus, load
from gradwalk.sweep import Ending, Entry, Spec, Store, UnreadableWarning, record, run_sweep, status
from gradwalk.sweep.folder import CHECKPOINTS, LOCK, STORE
from gradwalk.sweep.writer import Writer
from gradwalk.train import DamageWarning, Run, State, checkpoint, train
from gradwalk.train.checkpoint import save_state


def flip(path, place):
    """Change one bit of a file; a negative place counts from its end."""
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


def command(capsys, *words):
    """Exit code, stdout and stderr of a command line."""
    with pytest.raises(SystemExit) as ended:
        cli.main([str(word) for word in words])
    return (ended.value.code, *capsys.readouterr())


# Checkpoints


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """A run, its data, its epochs, and the content of its checkpoint in mid-epoch."""
    lasting = {"epochs": 60, "measure_every": 20}  # more than can end before the interrupt is noticed
    run = Run(data="digits", examples=200, depth=4, params=2e3, gain=1.1, optimizer="adam", **lasting)
    data, folder = load("digits", examples=200), tmp_path_factory.mktemp("half")
    with suppress(KeyboardInterrupt):
        train([run], data, threads=1, folder=folder, watcher=InterruptAt(3))
    (path,) = folder.iterdir()
    return run, data, untimed(train([run], data, threads=1)), path


def untimed(outcomes):
    return [[replace(epoch, seconds=0.0) for epoch in outcome.epochs] for outcome in outcomes]


def damage(content, kind, identity, tmp_path, monkeypatch):
    """The content of a checkpoint, damaged in one of several ways."""
    other = tmp_path / "other"
    if kind == "foreign":
        save_state(other, "another", State([torch.ones(3, 2)], [torch.zeros(2)]))
    elif kind == "other network":
        save_state(other, identity, State([torch.ones(3, 2)], [torch.zeros(2)]))
    elif kind == "newer":
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, "FORMAT", "99")
            save_state(other, identity, State([torch.ones(3, 2)], [torch.zeros(2)]))
    if other.exists():
        return other.read_bytes()
    place = {"weight": len(content) - 40, "header": content.index(b'"steps') + 10, "length": 0}[kind]
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("weight", r"is damaged \(its digest does not match its content\)"),
        ("header", r"is damaged \("),
        ("length", r"is damaged \("),
        ("foreign", r"belongs to another run \(another\)"),
        ("newer", "has format 99, but this gradwalk reads format 3"),
        ("other network", "holds a network of another architecture"),
    ],
)
def test_a_checkpoint_that_cannot_be_used_is_told_and_set_aside_and_the_result_is_the_same(
    half, tmp_path, monkeypatch, kind, reason
):
    run, data, expected, source = half
    path = tmp_path / "folder" / source.name
    path.parent.mkdir()
    path.write_bytes(damage(source.read_bytes(), kind, path.stem, tmp_path, monkeypatch))
    content = path.read_bytes()
    with pytest.warns(DamageWarning, match=rf"checkpoint: {path} {reason}.*; it is now .*and the run starts anew"):
        assert untimed(train([run], data, threads=1, folder=path.parent)) == expected
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == {f"{path.name}.damaged": content}


def test_an_intact_checkpoint_is_used_and_nothing_is_told(half, tmp_path, recwarn):
    run, data, expected, source = half
    shutil.copy(source, tmp_path)
    assert untimed(train([run], data, threads=1, folder=tmp_path)) == expected
    assert not recwarn.list


# The store


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The summary of a sweep of 5 runs, the last of which diverged."""
    return run_sweep(Spec.load(WITH_DIVERGED), tmp_path_factory.mktemp("whole"))


@pytest.fixture
def folder(whole, tmp_path):
    """A copy of that sweep's folder."""
    shutil.copy(whole.folder / STORE, tmp_path)
    return tmp_path


def execute(folder, statement, *values):
    with closing(sqlite3.connect(folder / STORE)) as store, store:
        store.execute(statement, values)


@pytest.mark.parametrize(
    "change",
    [
        "epochs = zeroblob(length(epochs))",
        "epochs = x''",
        "settings = replace(settings, '\"seed\":0', '\"seed\":4')",
        "train_examples = 99",
        "seconds = seconds + 1e-9",
        "status = 'failed'",
        "diverged = 2",
        "settings = '{'",
    ],
)
def test_a_changed_row_is_shown_as_damaged_and_trained_again(whole, folder, capsys, change):
    execute(folder, f"UPDATE runs SET {change} WHERE id = 2")
    now = status(folder)
    assert (now.runs, sum(now.counts.values()), len(now.unreadable)) == (5, 4, 1)
    assert now.unreadable[0].reason.startswith("it is damaged")
    with Store(folder) as store, pytest.warns(UnreadableWarning, match="1 run in .* cannot be read"):
        assert len(store.results()) == 4
    code, printed, _ = command(capsys, "sweep", "status", folder)
    assert (code, "cannot be read" in printed, "it is damaged" in printed) == (0, True, True)
    code, printed, errors = command(capsys, "sweep", "export", folder, "--to", folder / "runs.csv")
    assert (code, printed) == (0, f"written: {folder / 'runs.csv'}, 4 rows\n")
    assert errors.startswith(f"gradwalk: sweep: 1 run in {folder / STORE} cannot be read and are left out")
    with pytest.warns(DamageWarning, match=r"sweep: 1 row of .* 1 of them runs, which are trained again; the store as"):
        again = run_sweep(Spec.load(WITH_DIVERGED), folder)
    assert (again.kept, numbers(again.results)) == (4, numbers(whole.results))
    with closing(sqlite3.connect(folder / f"{STORE}.damaged")) as copy:
        assert copy.execute("SELECT count(*) FROM runs").fetchone() == (5,)


def test_damaged_epochs_of_a_run_under_way_are_left_out_and_measured_again(whole, tmp_path):
    entry = whole.results[0]
    with Writer(tmp_path) as writer:
        writer.enlist([replace_entry(entry)])
        writer.began([entry.identity])
        writer.epoch_ended(entry.identity, entry.epochs[0])
    execute(tmp_path, "UPDATE epochs SET epochs = zeroblob(56)")
    with pytest.warns(DamageWarning, match="1 row of .*, 0 of them runs"):
        again = run_sweep(Spec.load(SMALL), tmp_path).results
    assert numbers(again) == numbers(whole.results[:4])


def replace_entry(result):
    return Entry(result.identity, result.run, result.parameters, result.train_examples, result.test_examples)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("PRAGMA user_version = -1", "has format -1, but this gradwalk reads format 2"),
        ("PRAGMA application_id = 7", "was not written by gradwalk"),
        ("DROP TABLE runs", "is corrupt .its tables are not as they were written"),
        ("ALTER TABLE runs ADD COLUMN mood TEXT", "is corrupt .its tables are not as they were written"),
    ],
)
def test_a_store_with_other_tables_is_refused_in_one_sentence(folder, statement, reason):
    execute(folder, statement)
    for opened in (Store, Writer):
        with pytest.raises(ValueError, match=rf"^sweep: {folder / STORE} {reason}.*; "):
            opened(folder)


def test_a_run_that_this_version_cannot_read_is_shown_as_such_and_hides_no_other(folder, capsys):
    activations.register("briefly known", np.tanh, lambda a: np.cosh(a) ** -2)
    spec = Spec.load(SMALL, ["depth=3", "gain=1.1", "activation='briefly known'"])
    run_sweep(spec, folder)
    activations.FAMILIES.remove("briefly known")
    with Writer(folder) as writer:
        writer.enlist([Entry("newer", Stored('{"mood": "good"}'), 1, 1, 1)])
    reasons = [run.reason for run in status(folder).unreadable]
    assert reasons == [
        "its settings: activation: there is no activation 'briefly known'; " + reasons[0].partition("; ")[2],
        "its settings: there is no setting 'mood'",
    ]
    code, printed, errors = command(capsys, "sweep", "export", folder, "--to", folder / "epochs.csv", "--epochs")
    assert (code, printed) == (0, f"written: {folder / 'epochs.csv'}, 9 rows\n")
    assert "2 runs in" in errors
    assert run_sweep(Spec.load(WITH_DIVERGED), folder).kept == 5


def test_a_run_whose_settings_are_no_json_is_shown_as_such_and_hides_no_other(folder, capsys):
    with Writer(folder) as writer:
        writer.enlist([Entry("torn", Stored('{"depth": 3, "ga'), 1, 1, 1)])
    (torn,) = status(folder).unreadable
    assert torn.reason == "its settings are no JSON: EOF while parsing a string at line 1 column 16"
    code, printed, errors = command(capsys, "sweep", "export", folder, "--to", folder / "runs.csv")
    assert (code, printed) == (0, f"written: {folder / 'runs.csv'}, 5 rows\n")
    assert "1 run in" in errors


class Stored:
    """A run as it is stored."""

    def __init__(self, settings):
        self.settings = settings

    def model_dump_json(self):
        return self.settings


def test_the_log_of_a_store_that_was_moved_away_is_not_replayed_into_a_new_one(folder):
    log = folder / f"{STORE}-wal"
    with Writer(folder):
        shutil.copy(log, folder / "kept")
    (folder / STORE).unlink()
    (folder / "kept").rename(log)
    with Writer(folder) as writer:
        assert writer.statuses() == {}
    assert (folder / f"{STORE}-wal.old").exists()


def test_a_data_set_without_test_examples_has_no_test_error(whole):
    result = replace(whole.results[0], test_examples=0)
    assert result.test_error != result.test_error


def test_a_store_of_runs_without_test_examples_is_shown_and_exported(whole, tmp_path, capsys):
    entry = replace_entry(replace(whole.results[0], test_examples=0))
    with Writer(tmp_path) as writer:
        writer.enlist([entry])
        writer.ended([Ending(entry.identity, tuple(whole.results[0].epochs), None, 1.0, "here")])
    code, printed, _ = command(capsys, "sweep", "status", tmp_path)
    assert (code, "(test nan)" in printed) == (0, True)
    for more in ([], ["--epochs"]):
        assert command(capsys, "sweep", "export", tmp_path, "--to", tmp_path / "table.csv", *more)[0] == 0


# The folder


class Removes:
    """A report of `run_sweep` that removes or replaces something once training is under way."""

    def __init__(self, action):
        self.action, self.done = action, False

    def __call__(self, progress):
        if progress.steps and not self.done:
            self.done = True
            self.action()


@pytest.mark.parametrize("what", ["folder", STORE, LOCK])
@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_folder_store_or_lock_that_is_removed_or_replaced_stops_the_sweep(tmp_path, monkeypatch, what, how):
    monkeypatch.setattr(record, "_CHECK_EVERY", 0.1)  # or each sweep trains on for a second
    folder = tmp_path / "out"
    path = folder if what == "folder" else folder / what

    def act():
        if what == "folder":
            shutil.move(folder, tmp_path / "moved")
            if how == "replaced":
                shutil.copytree(tmp_path / "moved", folder)
        else:
            path.rename(folder / "moved")
            if how == "replaced":
                shutil.copy(folder / "moved", path)

    with pytest.raises(
        OSError, match=rf"^sweep: {path} was removed or replaced while the sweep ran, and the sweep has"
    ):
        run_sweep(Spec.load(SMALL, ["epochs=5000"]), folder, threads=1, report=Removes(act))
    assert (folder / CHECKPOINTS).exists() == (what != "folder" or how == "replaced")


def test_an_empty_name_of_a_folder_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"^sweep: the folder must have a name, got ''"):
        run_sweep(Spec.load(SMALL), "")
    (tmp_path / "mine.toml").write_text(SMALL)
    for words in (["sweep", "mine.toml"], ["train", "--data", "digits"], ["reproduce", "fig1"]):
        code, printed, errors = command(capsys, *words, "--out", "")
        assert (code, printed, errors.count("\n")) == (2, "", 1)
        assert "must have a name" in errors
    assert os.listdir(tmp_path) == ["mine.toml"]


# Archives


@pytest.mark.parametrize("name", ["timit.tar.gz", "timit.zip"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.995])
def test_a_flipped_bit_of_an_archive_is_told(tmp_path, name, share):
    path = (tape if name.endswith("gz") else pack)(tmp_path / name, sample_files())
    flip(path, int(share * path.stat().st_size))
    with pytest.raises(ValueError, match=rf"^data: {path} is corrupt or not an archive \("):
        list(corpus.files(path))


def test_a_tar_archive_that_ends_early_is_told(tmp_path):
    import gzip

    path = tmp_path / "timit.tar"
    content = gzip.decompress(tape(tmp_path / "timit.tar.gz", sample_files()).read_bytes())
    middle = content.index(b"./dr2-")
    path.write_bytes(content[:middle])
    with pytest.raises(ValueError, match=rf"^data: {path} is corrupt or not an archive \(it ends early, at byte"):
        list(corpus.files(path))
    path.write_bytes(content[: middle + 3] + b"?" + content[middle + 4 :])
    with pytest.raises(ValueError, match=r"is corrupt or not an archive \(damaged header at byte"):
        list(corpus.files(path))


# Networks


@pytest.mark.parametrize("share", [0.0, 0.02, 0.2, 0.5, 0.9, 0.999])
def test_a_flipped_bit_of_a_saved_network_is_told(tmp_path, share):
    path = tmp_path / "network.safetensors"
    model = nets.sequential(
        [torch.randn(5, 4), torch.randn(4, 2)], [torch.randn(4), torch.randn(2)], ["tanh", "linear"]
    )
    nets.save_network(model, ["tanh", "linear"], path)
    assert torch.equal(nets.load_network(path)[0].weight, model[0].weight)
    flip(path, int(share * path.stat().st_size))
    with pytest.raises(ValueError, match=r"load_network: .*network\.safetensors is (damaged|not a network)"):
        nets.load_network(path)
