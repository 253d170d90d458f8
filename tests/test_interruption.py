"""Whatever may take long reports its progress as it goes, and Ctrl-C ends it at the next report.

Reports are counted, and no clock is read: a report that comes once per layer, pass or part keeps coming at any size.
"""

import re
import sys
import threading

import numpy as np
import pytest
from helpers.reports import reporting
from helpers.toy_speech import sample_files, tape

import gradwalk as gw
from gradwalk import simulation
from gradwalk.simulation import memory


def forget():
    """Empty the caches of sampled numbers, so that they are sampled again."""
    for name in [name for name in sys.modules if re.match(r"gradwalk[.](gains|remedies|branches)", name)]:
        for value in vars(sys.modules[name]).values():
            getattr(value, "cache_clear", int)()


SAMPLED = {
    "simulate": lambda: gw.simulate("tanh", 20, 30, gain=1.1, walks=90, rng=0).log_norm,
    "simulate, O(1)": lambda: gw.simulate("relu", 20, 500, gain=1.4, walks=400, rng=0).log_norm,
    "simulate, dense": lambda: gw.simulate("tanh", 20, 30, gain=1.1, walks=9, rng=0, method="dense").log_norm,
    "simulate, pairs": lambda: gw.simulate("tanh", 20, 30, gain=1.1, walks=90, rng=0, pair="inputs").log_norm,
    "jacobian_singular_values": lambda: simulation.jacobian_singular_values("tanh", 9, 30, gain=1.1, rng=0),
    "gain": lambda: gw.gain("tanh", [20, 30] * 5),
    "solve_gain": lambda: gw.solve_gain("tanh", 20, 10, walks=90).value,
    "max_depth": lambda: gw.max_depth("gelu*2", 12),
    "max_depth, directions": lambda: gw.max_depth("relu", 20, directions=3),
    "min_width": lambda: gw.min_width("gelu", 5),
    "min_width, directions": lambda: gw.min_width("relu", 5, directions=3),
    "directions": lambda: gw.directions("tanh", 20, 10).backward,
    "leak_for": lambda: gw.leak_for("tanh", 20, 10, directions=6),
    "advise": lambda: gw.advise("relu", 20, 10, directions=6).remedies[0].gain,
    "branch_scale": lambda: gw.branch_scale("tanh", 20, 9, walks=90).value,
}


@pytest.mark.filterwarnings("ignore::gradwalk.UnsteadyWarning")
@pytest.mark.parametrize("name", SAMPLED)
def test_what_samples_reports_every_layer_and_ends_at_the_report_after_ctrl_c(monkeypatch, name):
    monkeypatch.setattr(memory, "SHARED_BYTES", memory.LEAST_BYTES)  # several threads, also for few walks
    monkeypatch.setattr(memory, "LIGHT_BYTES", 0)
    forget()
    with reporting(monkeypatch) as reports:
        expected = SAMPLED[name]()
    assert reports.count >= 10
    forget()
    before = set(threading.enumerate())
    with reporting(monkeypatch, at=reports.count // 2) as stopped, pytest.raises(KeyboardInterrupt):
        SAMPLED[name]()
    assert stopped.after <= memory.THREADS
    for thread in set(threading.enumerate()) - before:
        if thread.ident is None:  # it is about to start, and finds that it is too late
            continue
        thread.join(30)
        assert not thread.is_alive()
    np.testing.assert_array_equal(SAMPLED[name](), expected)


def layers(activation):
    """A network of torch layers with an activation between them, and the values of its weights."""
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    parts = (part for _ in range(12) for part in (torch.nn.Linear(9, 9), getattr(torch.nn, activation)()))
    net = torch.nn.Sequential(*parts)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter.data, std=0.3, generator=generator)
    return net, [parameter.detach().clone() for parameter in net.parameters()]


def test_init_reports_every_layer_and_stops_at_ctrl_c_before_the_next(monkeypatch):
    net, before = layers("ReLU")  # whose gains need no sampling
    from gradwalk.torch import init_

    with reporting(monkeypatch, at=5), pytest.raises(KeyboardInterrupt):
        init_(net, keep_fine=False)
    same = [bool((old == new).all()) for old, new in zip(before, net.parameters(), strict=True)][::2]
    assert same == [False] * 5 + [True] * 7


def test_calibrate_reports_every_pass_and_restores_the_weights_at_ctrl_c(monkeypatch):
    torch = pytest.importorskip("torch")
    from gradwalk.torch import calibrate_

    net, before = layers("Tanh")
    inputs = torch.randn(20, 9, generator=torch.Generator().manual_seed(1))
    with reporting(monkeypatch, at=6) as reports, pytest.raises(KeyboardInterrupt):
        calibrate_(net, inputs, lambda output: output.square().sum())
    assert reports.count == 6
    assert all(torch.equal(old, new) for old, new in zip(before, net.parameters(), strict=True))


def test_the_conversion_of_a_corpus_reports_every_recording_and_stops_at_ctrl_c(monkeypatch, tmp_path):
    from gradwalk.data import corpus, timit

    source = tape(tmp_path / "timit.tar.gz", sample_files())
    with reporting(monkeypatch) as reports:
        timit._convert(source, "mfcc")
    assert reports.count == corpus.count(source) > 3
    with reporting(monkeypatch, at=3) as stopped, pytest.raises(KeyboardInterrupt):
        timit._convert(source, "mfcc")
    assert stopped.count == 3


def test_an_export_reports_every_part_and_leaves_no_file_at_ctrl_c(monkeypatch, tmp_path):
    pytest.importorskip("torch")
    from gradwalk.sweep import Result, export
    from gradwalk.train import Run

    monkeypatch.setattr(export, "_RUNS_AT_A_TIME", 2)
    runs = [Result(Run(seed=seed), f"{seed}", "waiting") for seed in range(20)]
    with reporting(monkeypatch, at=5) as reports, pytest.raises(KeyboardInterrupt):
        export.write_table(runs, tmp_path / "runs.csv")
    assert (reports.count, list(tmp_path.iterdir())) == (5, [])
    with reporting(monkeypatch) as reports:
        assert export.write_table(runs, tmp_path / "runs.csv") == 20
    assert reports.count == 10


def test_a_plan_reports_every_speed_that_it_measures_and_stops_at_ctrl_c(monkeypatch):
    pytest.importorskip("torch")
    from gradwalk.sweep import Spec, plan, speed

    monkeypatch.setattr(speed, "_LONG_ENOUGH", 0.0)
    spec = Spec.load('data = "digits"\nexamples = 100\nparams = 2e3\ndepth = [3, 4, 5, 6]\n')
    with reporting(monkeypatch) as reports:
        assert plan(spec, threads=1).seconds > 0
    assert reports.count >= 4
    with reporting(monkeypatch, at=reports.count // 2) as stopped, pytest.raises(KeyboardInterrupt):
        plan(spec, threads=1)
    assert stopped.count < reports.count
