"""A sweep that is killed, interrupted or out of disk space resumes to the same results."""

import random
import re
import signal
import sqlite3
import time
from contextlib import closing
from functools import cache
from typing import NamedTuple

import pytest
from helpers.processes import interrupt_after_epoch, started
from helpers.small_sweep import numbers

pytest.importorskip("torch")
pytest.importorskip("pydantic")

from gradwalk.sweep import Spec, Store, run_sweep
from gradwalk.sweep.folder import CHECKPOINTS, STORE

KILLS = 4
SPEC = """
data = "digits"
examples = 100
params = 3e3
depth = [3, 4, 5, 6, 7, 8, 9, 10]
gain = [1.0, 1.2]
epochs = 20

[[runs]]
seed = [0, 1]

[[runs]]
activation = "relu"
gain = [1.4, "none"]

[[runs]]
depth = 5
rate_in = 1e38
rate_out = 1e38
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "mine.toml"
    path.write_text(SPEC)
    return path


class Whole(NamedTuple):
    """The numbers of a sweep that was never interrupted, and the seconds per stack."""

    numbers: dict
    stack: float


@pytest.fixture(scope="module")
def whole(spec, tmp_path_factory):
    summary = run_sweep(Spec.load(spec), tmp_path_factory.mktemp("whole"))
    stacks = {result.run.stacks_with() for result in summary.results}
    return Whole(numbers(summary.results), summary.seconds / len(stacks))


def results(folder):
    try:
        with Store(folder) as store:
            return store.results()
    except FileNotFoundError:
        return []


def ended(folder):
    """The runs that have ended, with everything that would change if one were trained again."""
    over = (result for result in results(folder) if result.status in ("done", "diverged"))
    return {result.identity: (result.starts, result.ended, result.epochs) for result in over}


def ended_so_far(folder):
    """How many runs have ended, without reading their results: for loops that wait."""
    try:
        with closing(sqlite3.connect(f"file:{folder / STORE}?mode=ro", uri=True)) as store:
            return store.execute("SELECT count(*) FROM runs WHERE status IN ('done', 'diverged')").fetchone()[0]
    except sqlite3.OperationalError:  # there is no file or no table yet
        return 0


def checkpoints(folder):
    """The identities of the runs that have a checkpoint."""
    return {path.stem for path in (folder / CHECKPOINTS).glob("*.safetensors")}


def command(spec, folder, *more):
    return ["sweep", spec, "--out", folder, "--save-every", "0.01", *more]


def killed(spec, folder, chance, stack):
    """Start the sweep and kill it: at any moment of its first seconds, or some time after another run has ended."""
    before = len(ended(folder))
    process = started(command(spec, folder))
    patience = chance.choice((60.0, 60.0, chance.uniform(0, 0.5 + stack)))
    late = time.monotonic() + patience
    while process.is_alive() and ended_so_far(folder) <= before and time.monotonic() < late:
        time.sleep(0.005)
    time.sleep(chance.uniform(0, stack) if patience == 60.0 else 0.0)
    process.kill()
    process.join()
    return process.exitcode


def test_a_sweep_killed_at_random_moments_ends_with_the_results_of_one_that_never_was(spec, whole, tmp_path):
    chance, kept, begun, kills = random.Random(6), {}, set(), 0
    while kills < KILLS or not begun or not kept:  # one after a run has ended, one between two checkpoints
        assert killed(spec, tmp_path, chance, whole.stack) == -signal.SIGKILL
        now = ended(tmp_path)
        assert {identity: now.get(identity) for identity in kept} == kept, "an ended run was lost or trained again"
        kept = now
        begun |= checkpoints(tmp_path) - set(kept)
        kills += 1
    assert 0 < len(kept) < len(whole.numbers)
    last = run_sweep(Spec.load(spec), tmp_path)
    assert last.kept == len(kept)
    assert {identity: ended(tmp_path)[identity] for identity in kept} == kept
    assert numbers(last.results) == whole.numbers
    assert max(result.starts for result in last.results) > 1
    with closing(sqlite3.connect(tmp_path / STORE)) as store:
        assert store.execute("SELECT DISTINCT ends FROM runs").fetchall() == [(1,)], "a run was recorded twice"
    assert {result.status for result in last.results} == {"done", "diverged"}
    assert not (tmp_path / CHECKPOINTS).exists()


def test_ctrl_c_saves_and_prints_what_is_saved_and_the_command_that_resumes(spec, whole, tmp_path):
    folder, log, hold = tmp_path / "out", tmp_path / "log", tmp_path / "hold"
    hold.touch()
    process = started(command(spec, folder, "--threads", "1"), log, interrupt_after_epoch, 3, 1, hold)
    while process.is_alive() and not results(folder):
        time.sleep(0.01)
    with pytest.raises(ValueError, match=rf"sweep: {folder} is in use by process {process.pid} on .* since 20"):
        run_sweep(Spec.load(spec), folder)
    hold.unlink()
    process.join(30)
    assert process.exitcode == 130
    done, last = len(ended(folder)), log.read_text().splitlines()[-1]
    assert f"gradwalk: interrupted; {done} of {len(whole.numbers)} runs have ended and are saved in {folder}" in last
    assert last.endswith(f"resume with: gradwalk sweep {spec} --out {folder} --threads 1 --save-every 0.01")
    running = [result for result in results(folder) if result.status == "interrupted"]
    assert {result.identity for result in running} == checkpoints(folder) != set()
    first = running[0].run
    part = [f"{key}={getattr(first, key)}" for key in ("depth", "activation", "gain", "rate_in", "rate_out", "seed")]
    (resumed,) = run_sweep(Spec.load(spec, part), folder).results
    assert resumed.starts == 2
    assert numbers([resumed]) == {resumed.identity: whole.numbers[resumed.identity]}


def limit_file_size(size):
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


FEW = ["depth=[3, 4]", "activation=tanh", "gain=[1.0, 1.2]", "rate_in=0.01", "rate_out=0.01", "epochs=25"]


@pytest.fixture(scope="module")
def undisturbed(spec, tmp_path_factory):
    """The numbers of a few runs with enough room, by their parameters."""

    @cache
    def of(params):
        return numbers(run_sweep(Spec.load(spec, [f"params={params}", *FEW]), tmp_path_factory.mktemp("few")).results)

    return of


@pytest.mark.parametrize(
    ("room", "params", "refused"),
    [(9_000, 3e3, STORE), (100_000, 3e3, STORE), (60_000, 2e4, CHECKPOINTS)],
    ids=["from the start", "in the store", "for a checkpoint"],
)
def test_a_full_disk_is_reported_in_one_line_and_nothing_is_lost(spec, undisturbed, tmp_path, room, params, refused):
    folder, log = tmp_path / "out", tmp_path / "log"
    few = [f"params={params}", *FEW]
    process = started(command(spec, folder, *few), log, limit_file_size, room)
    process.join()
    errors = log.read_text()
    assert (process.exitcode, "Traceback" in errors) == (2, False)
    assert re.match(rf"gradwalk: .*{folder}/{refused}.* cannot be (written|used) \(.*\)", errors.splitlines()[-1])
    kept = ended(folder) if room > 9_000 else {}
    last = run_sweep(Spec.load(spec, few), folder)
    assert last.kept == len(kept)
    assert {identity: ended(folder)[identity] for identity in kept} == kept
    assert numbers(last.results) == undisturbed(params)
    assert room == 9_000 or "finished runs are saved: fix this and repeat the command to resume" in errors
