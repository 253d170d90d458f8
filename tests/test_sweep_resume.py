"""A sweep that is killed, interrupted or refused its disk goes on where it was, to the same table."""

import multiprocessing
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import NamedTuple

import pytest

pytest.importorskip("torch")
pytest.importorskip("pydantic")

from gradwalk import cli
from gradwalk.sweep import Spec, Store, run_sweep
from gradwalk.sweep.schema import FILE
from gradwalk.sweep.store import CHECKPOINTS

KILLS = 10
SPEC = """
data = "digits"
examples = 300
params = 3e3
depth = [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
gain = [1.0, 1.2]
epochs = 25

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

# Children are forked from a process that has imported everything: torch's import would be half of the test's time.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["gradwalk.cli.sweep", "gradwalk.sweep", "sklearn.datasets"])


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "mine.toml"
    path.write_text(SPEC)
    return path


class Whole(NamedTuple):
    """The table of a sweep that was never interrupted, and the seconds that one of its stacks took."""

    table: dict
    stack: float


@pytest.fixture(scope="module")
def whole(spec, tmp_path_factory):
    summary = run_sweep(Spec.load(spec), tmp_path_factory.mktemp("whole"))
    return Whole(numbers(summary.results), summary.seconds / len({each.run.stacks_with() for each in summary.results}))


def numbers(results):
    """What results say that no clock has a part in, by the runs' identities."""
    return {
        each.identity: (each.status, each.diverged, tuple(replace(epoch, seconds=0.0) for epoch in each.epochs))
        for each in results
    }


def results(folder):
    if not (folder / FILE).exists():
        return []
    with Store(folder) as store:
        return store.results()


def ended(folder):
    """The runs that have ended, with all that would change if one were begun or ended again."""
    found = (each for each in results(folder) if each.status in ("done", "diverged"))
    return {each.identity: (each.starts, each.ended, each.epochs) for each in found}


def command(spec, folder, *more):
    return ["sweep", str(spec), "--out", str(folder), "--save-every", "0.05", *more]


def killed(spec, folder, chance, stack):
    """Start the sweep and kill it: at any moment of its first seconds, or some time after another run has ended."""
    before = len(ended(folder))
    process = processes.Process(target=cli.main, args=(command(spec, folder),))
    process.start()
    patience = chance.choice((60.0, 60.0, chance.uniform(0, 0.5 + stack)))
    late = time.monotonic() + patience
    while process.is_alive() and len(ended(folder)) <= before and time.monotonic() < late:
        time.sleep(0.005)
    time.sleep(chance.uniform(0, stack) if patience == 60.0 else 0.0)
    process.kill()
    process.join()
    return process.exitcode


def test_a_sweep_killed_at_random_moments_ends_with_the_table_of_one_that_never_was(spec, whole, tmp_path):
    chance, kept, begun = random.Random(5), {}, set()
    for _ in range(KILLS):
        assert killed(spec, tmp_path, chance, whole.stack) == -signal.SIGKILL
        now = ended(tmp_path)
        assert {identity: now.get(identity) for identity in kept} == kept, "a run that had ended was lost or run again"
        kept = now
        begun |= {path.stem for path in (tmp_path / CHECKPOINTS).glob("*.safetensors")} - set(kept)
    assert 0 < len(kept) < len(whole.table)
    assert begun, "no kill came between two checkpoints, which shows nothing about going on from them"
    last = run_sweep(Spec.load(spec), tmp_path)
    assert last.kept == len(kept)
    assert {identity: ended(tmp_path)[identity] for identity in kept} == kept
    assert numbers(last.results) == whole.table
    with Store(tmp_path) as store:
        counted = list(store._rows("SELECT status, starts, ends FROM runs"))
    assert {row["ends"] for row in counted} == {1}
    assert max(row["starts"] for row in counted) > 1
    assert {row["status"] for row in counted} == {"done", "diverged"}
    assert not (tmp_path / CHECKPOINTS).exists()


def test_ctrl_c_saves_says_what_is_saved_and_how_to_go_on(spec, whole, tmp_path):
    words = command(spec, tmp_path, "--threads", "1")
    code = "from gradwalk.cli import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while process.poll() is None and not ended(tmp_path):
        time.sleep(0.01)
    with pytest.raises(ValueError, match=rf"sweep: {tmp_path} is in use by process {process.pid} on .* since 20"):
        run_sweep(Spec.load(spec), tmp_path)
    process.send_signal(signal.SIGINT)
    out, err = (each.decode() for each in process.communicate(timeout=30))
    assert (process.returncode, out) == (130, "")
    done, last = len(ended(tmp_path)), err.splitlines()[-1]
    assert f"gradwalk: interrupted; {done} of {len(whole.table)} runs have ended and are saved in {tmp_path}" in last
    assert last.endswith(f"go on with: gradwalk sweep {spec} --out {tmp_path} --threads 1 --save-every 0.05")
    running = [each for each in results(tmp_path) if each.status == "running"]
    saved = {path.stem for path in (tmp_path / CHECKPOINTS).glob("*.safetensors")}
    assert {each.identity for each in running} == saved != set()
    first = running[0].run
    part = [f"{key}={getattr(first, key)}" for key in ("depth", "activation", "gain", "rate_in", "rate_out", "seed")]
    (gone_on,) = run_sweep(Spec.load(spec, part), tmp_path).results
    assert gone_on.starts == 2
    assert numbers([gone_on]) == {gone_on.identity: whole.table[gone_on.identity]}


def limited(words, size, log):
    """Run a command line in a process whose files cannot grow past a size; what it says goes to a log."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), sys.stderr.fileno())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    cli.main(words)


@pytest.mark.parametrize(
    ("room", "params", "refused"),
    [(9_000, 3e3, FILE), (100_000, 3e3, FILE), (60_000, 2e4, CHECKPOINTS)],
    ids=["from the start", "in the store", "for a checkpoint"],
)
def test_a_full_disk_is_told_in_a_sentence_and_nothing_is_lost(spec, tmp_path, room, params, refused):
    folder, log = tmp_path / "out", tmp_path / "log"
    few = [f"params={params}", "depth=[3, 4]", "activation=tanh", "gain=[1.0, 1.2]", "rate_in=0.01", "rate_out=0.01"]
    process = processes.Process(target=limited, args=(command(spec, folder, *few), room, log))
    process.start()
    process.join()
    err = log.read_text()
    assert (process.exitcode, "Traceback" in err) == (2, False)
    assert re.match(rf"gradwalk: .*{folder}/{refused}.* cannot be (written|used) \(.*\)", err.splitlines()[-1])
    kept = ended(folder) if room > 9_000 else {}
    last = run_sweep(Spec.load(spec, few), folder)
    assert last.kept == len(kept)
    assert {identity: ended(folder)[identity] for identity in kept} == kept
    assert numbers(last.results) == numbers(run_sweep(Spec.load(spec, few), tmp_path / "other").results)
    assert room == 9_000 or "what had ended is saved: mend this and give the same command again" in err
