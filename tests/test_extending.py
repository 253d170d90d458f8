"""What users add from outside the package works end to end: one test per kind, and a package with an entry point."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.command_line import run
from pandas import read_csv
from torch import nn

import gradwalk as gw
import gradwalk.torch as gwt
from gradwalk import registry
from gradwalk.data import DATASETS, DataSource, from_arrays, load
from gradwalk.figures import FIGURES, SimulatedFigure, canvas
from gradwalk.figures.table import Table
from gradwalk.nets import INITIALISERS, OPTIMIZERS, Initialiser, Optimizer, load_network
from gradwalk.registry import Registry
from gradwalk.report import CLAIMS, Claim, Finding
from gradwalk.sweep import ENGINES, Engine, Spec, Store, run_sweep, train_job
from gradwalk.train import Watcher, train


class Arctan(nn.Module):
    """The module that a user's models contain."""

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return torch.atan(a)


def rings(*, examples=None, scaling="dimension", folder=None):
    """Three classes in the plane, which no linear network can tell apart."""
    rng = np.random.default_rng(0)
    angle, label = rng.uniform(0, 2 * np.pi, 1200), rng.integers(0, 3, 1200)
    radius = 1 + label + 0.1 * rng.standard_normal(1200)
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    train, test = (x[:1000], label[:1000]), (x[1000:], label[1000:])
    return from_arrays("rings", train=train, test=test, examples=examples, scaling=scaling)


def swept(tmp_path: Path, spec: str, **options):
    return run_sweep(Spec.load(spec), tmp_path / "sweep", threads=1, **options)


def test_an_activation_has_a_gain_is_recognised_in_models_trains_and_is_exported(tmp_path):
    gw.register("arctan", np.arctan, lambda a: 1 / (1 + a**2), torch=Arctan)
    gain = gw.gain("arctan", width=50, depth=30)
    walks = gw.simulate("arctan", 50, 30, gain=gain, walks=1000, rng=5)
    assert abs(walks.mean) < 4 * walks.standard_error

    model = nn.Sequential(nn.Linear(8, 50), *(layer for _ in range(30) for layer in (Arctan(), nn.Linear(50, 50))))
    report = gwt.init_(model)
    assert {row.activation for row in report.rows[1:]} == {"arctan"}
    assert report.rows[-1].gain == pytest.approx(gain)

    summary = swept(
        tmp_path,
        "data = 'digits'\nactivation = 'arctan'\ndepth = 8\nwidth = 30\nrate = 0.1\nepochs = 4",
        save_networks=True,
    )
    (result,) = summary.results
    assert result.train_error < 0.5
    network = load_network(tmp_path / "sweep" / "networks" / f"{result.identity}.safetensors")
    assert isinstance(network[1], Arctan)


def test_a_data_set_is_loaded_by_name_and_learned(tmp_path):
    DATASETS.register(DataSource("rings", rings))
    (result,) = swept(tmp_path, "data = 'rings'\ndepth = 8\nwidth = 30\nrate = 0.1\nepochs = 20").results
    assert result.test_error < 0.05
    assert result.train_examples == 1000


def test_an_initialiser_draws_the_weights_of_runs(tmp_path):
    def zero(network):
        for fan_in, fan_out in network.shapes:
            yield torch.zeros(fan_in, fan_out), torch.zeros(fan_out)

    INITIALISERS.register(Initialiser("zero", zero))
    spec = "data = 'digits'\nweights = ['zero', 'xavier']\ndepth = 3\nwidth = 20\nrate = 0.1\nepochs = 2"
    zero_run, xavier_run = swept(tmp_path, spec).results
    assert zero_run.epochs[0].train_loss == pytest.approx(np.log(10), rel=0.01)  # nothing but the last bias learns
    assert xavier_run.train_error < 0.5 < zero_run.train_error


@dataclass(frozen=True)
class SignMomentum(Optimizer):
    """An optimizer of one's own, with a number and a state."""

    name = "sign-momentum"
    slots = ("velocity",)
    momentum: float = 0.9

    def update(self, parameter, step):
        (velocity,) = parameter.slots
        velocity.mul_(self.momentum).add_(parameter.gradient)
        parameter.value.sub_(torch.sign(velocity, out=parameter.scratch).mul_(parameter.rate))


def test_an_optimizer_trains_and_resumes_with_its_state(tmp_path):
    OPTIMIZERS.register(SignMomentum)
    text = "data = 'digits'\noptimizer = 'sign-momentum(0.8)'\ndepth = 5\nwidth = 20\nrate = 1e-3\nepochs = 4"
    (whole,) = swept(tmp_path, text).results
    assert whole.train_error < 0.3

    class Stop(Watcher):
        steps = 0

        def stepped(self, networks):
            self.steps += 1
            if self.steps == 20:
                raise KeyboardInterrupt

    folder = tmp_path / "checkpoints"
    with pytest.raises(KeyboardInterrupt):
        train([whole.run], load("digits"), threads=1, folder=folder, watcher=Stop())
    assert len(list(folder.iterdir())) == 1
    (resumed,) = train([whole.run], load("digits"), threads=1, folder=folder)
    assert [epoch.train_loss for epoch in resumed.epochs] == [epoch.train_loss for epoch in whole.epochs]


def test_an_engine_trains_a_sweep(tmp_path):
    stacks = []

    class Counting(Engine):
        name = "counting"

        def train(self, jobs, listener):
            for job in jobs:
                stacks.append(len(job.entries))
                train_job(job, self.options, listener)

    ENGINES.register(Counting)
    spec = "data = 'digits'\nexamples = 100\ndepth = [3, 4]\nwidth = 10\nseed = [0, 1]\nepochs = 1"
    assert swept(tmp_path, spec, engine="counting").counts["done"] == 4
    assert stacks == [2, 2]
    with Store(tmp_path / "sweep") as store:
        assert store.sessions()[-1].engine == "counting"


def test_a_figure_and_a_claim_appear_on_the_page(tmp_path):
    def compute(seed):
        walks = gw.simulate("linear", 20, 10, gain=1.0, walks=50, rng=seed)
        return Table.of({"layer": walks.layers, "mean": walks.log_norm.mean(axis=0)}, {"seed": seed})

    def draw(table):
        figure, panels = canvas(1, 1, (4, 3))
        panels[0, 0].plot(table["layer"], table["mean"])
        return figure

    def judge(tables):
        return Finding("holds" if tables["mine"]["mean"][-1] < 1 else "does not hold", "It ended below 1.")

    FIGURES.register(SimulatedFigure(name="mine", title="My figure", caption="A caption.", compute=compute, draw=draw))
    CLAIMS.register(Claim("X1", "Walks of ten layers end below 1.", "The mean is below 1.", ("mine",), judge))
    result = gw.reproduce("mine", out=tmp_path / "report")
    assert result.findings["X1"].verdict == "holds"
    page = result.page.read_text("utf-8")
    assert all(words in page for words in ("My figure", "A caption.", "Walks of ten layers end below 1.", "mine.png"))


PLUGIN = """
import numpy as np
import torch

import gradwalk
from gradwalk.data import DATASETS, DataSource, from_arrays
from gradwalk.nets import INITIALISERS, Initialiser


def load(*, examples=None, scaling="dimension", folder=None):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 4))
    split = (x[:200], (x[:200, 0] > 0).astype(int)), (x[200:], (x[200:, 0] > 0).astype(int))
    return from_arrays("halves", train=split[0], test=split[1], examples=examples, scaling=scaling)


def small(network):
    for fan_in, fan_out in network.shapes:
        yield 0.3 * torch.randn(fan_in, fan_out, generator=network.generator), torch.zeros(fan_out)


gradwalk.register("cube_root", np.cbrt, lambda a: np.abs(a) ** (-2 / 3) / 3, kinks=(0.0,))
DATASETS.register(DataSource("halves", load))
INITIALISERS.register(Initialiser("small", small))
"""


def test_an_installed_package_contributes_by_an_entry_point(tmp_path, monkeypatch):
    """The command line finds a data set and an initialiser in a package that only declares an entry point."""
    site = tmp_path / "site"
    metadata = site / "plugin-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "gradwalk_plugin.py").write_text(PLUGIN)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[gradwalk]\nplugin = gradwalk_plugin\n")
    monkeypatch.syspath_prepend(site)
    registry._load_plugins.cache_clear()  # as in a process that has just begun
    monkeypatch.chdir(tmp_path)
    command = "train --data halves --weights small --depth 3 --width 8 --epochs 2 --out trained"
    run(*command.split())
    epochs = read_csv(tmp_path / "trained" / "metrics.csv")
    assert epochs[["data", "weights", "epoch"]].values.tolist() == [["halves", "small", 1], ["halves", "small", 2]]


@dataclass(frozen=True)
class Item:
    name: object


def test_a_registry_refuses_bad_names_and_protects_the_built_in_ones():
    registry = Registry("colour", [Item("red")])
    for name in (None, "", " ", "a\nb", 3):
        with pytest.raises(ValueError, match="register: a colour needs a name that is a line of text"):
            registry.register(Item(name))
    with pytest.raises(ValueError, match="'red' is a built-in colour; choose another name"):
        registry.register(Item("red"))
    with pytest.raises(ValueError, match="remove: no colour 'red' was registered"):
        registry.remove("red")


def test_a_registry_replaces_what_a_user_registers_again_and_suggests_names():
    registry = Registry("colour", [Item("red")])
    registry.register(Item("teal"))
    again = registry.register(Item("teal"))
    assert registry["teal"] is again
    assert (registry.names, registry.registered, len(list(registry))) == (("red", "teal"), ("teal",), 2)
    with pytest.raises(ValueError, match=r"^here: there is no colour 'tael'; did you mean 'teal'\?$"):
        registry.find("tael", "here")
    with pytest.raises(ValueError, match="known are red, teal"):
        registry["xxxxxxx"]
    registry.remove("teal")
    assert "teal" not in registry
