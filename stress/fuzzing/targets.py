"""What is fuzzed: public functions with makers of their arguments, and checks that an answer is right."""

import atexit
import io
import math
import random
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gradwalk as gw
from fuzzing import values as v
from fuzzing.values import Maker
from gradwalk import data
from gradwalk.data import audio, corpus, phones
from gradwalk.nets import (
    autoencoder_widths,
    check_device,
    classifier_widths,
    load_network,
    parameter_count,
    parse_optimizer,
    save_network,
    sequential,
    stack_bytes,
)
from gradwalk.sweep import Spec, Store, plan, run_sweep, status
from gradwalk.sweep.export import write_table
from gradwalk.torch import Leak, calibrate_, compare, find_layers, init_, probe, random_walk_
from gradwalk.torch import plan as model_plan
from gradwalk.train import Epoch, State, checked_run, checkpoint, depth_rates

Arguments = dict[str, Any]
FOLDER = Path(tempfile.mkdtemp(prefix="gradwalk-fuzz-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
DIGITS = data.load("digits", examples=60)
DATASETS = data.Datasets()


@dataclass(frozen=True)
class Target:
    """A function, makers of its arguments, and a check of its answer that raises AssertionError.

    weight: how often it is called. typed: whether it takes arguments of the types of its makers only, because it is
    not public or of the fuzzer's own.
    """

    name: str
    call: Callable[..., Any]
    arguments: Mapping[str, Maker] = field(default_factory=dict)
    check: Callable[[Arguments, Any], None] = lambda arguments, answer: None
    weight: int = 10
    typed: bool = False


def finite(arguments: Arguments, answer: Any) -> None:
    """Check that all numbers of an answer are finite, and positive where it is one number."""
    numbers = answer if isinstance(answer, tuple) else (answer,)
    assert all(math.isfinite(number) for number in numbers), answer


def homogeneous(arguments: Arguments, answer: float) -> None:
    """Check the variance map of relu, g^2 q / 2."""
    finite(arguments, answer)
    if str(arguments["activation"]) == "relu":
        exact = float(arguments["gain"]) ** 2 * float(arguments["q"]) / 2
        assert math.isclose(answer, exact, rel_tol=1e-9), (answer, exact)


def correlated(arguments: Arguments, answer: float) -> None:
    """Check that an answer is a correlation."""
    assert -1 - 1e-9 <= answer <= 1 + 1e-9, answer


def unbiased(arguments: Arguments, answer: float) -> None:
    """Check a gain against its step."""
    assert 0 < answer < math.inf, answer
    width = arguments["width"]
    if (
        arguments.get("formula", "exact") == "exact"
        and isinstance(width, int)
        and gw.kind(arguments["activation"]) == "neutral"
    ):
        step = gw.step(arguments["activation"], width, weights=arguments.get("weights", "gaussian"))
        assert math.isclose(answer, math.exp(-step.drift / 2), rel_tol=1e-9), answer


def sampled(arguments: Arguments, walks: gw.Walks) -> None:
    """Check that walks are finite and begin at 0."""
    assert np.isfinite(walks.log_norm).all()
    assert (walks.log_norm[:, 0] == 0).all()
    assert walks.log_norm.shape == (int(arguments["walks"]), len(walks.layers))


def renamed(arguments: Arguments, answer: gw.Activation) -> None:
    """Check that the name of an activation is that of the same one."""
    if answer.family or answer.inner:
        assert gw.activation(answer.name) == answer, answer.name


def smallest_above(arguments: Arguments, widths: tuple[int, ...]) -> None:
    """Check the paper's rule: the network has more parameters than the limit."""
    assert parameter_count(widths) > arguments["params"], widths


def filled(arguments: Arguments, tensor: torch.Tensor) -> None:
    """Check that a tensor was filled with finite numbers."""
    assert bool(torch.isfinite(tensor).all())


def read_back(arguments: Arguments, spec: Spec) -> None:
    """Check that a spec is the same after it was written and read."""
    assert Spec.load(spec.toml() or "\n").runs() == spec.runs()


def block(chance: random.Random) -> Any:
    """Return a random block of one to three parts."""
    parts = [
        lambda: gw.dense(
            chance.choice((*v.NAMES[:3], "tanh")), gain=chance.uniform(0.5, 2), dropout=chance.choice((0.0, 0.2))
        ),
        lambda: gw.norm(chance.choice(("layer", "rms"))),
        lambda: gw.dropout(chance.choice((0.0, 0.3))),
    ]
    made = [chance.choice(parts)() for _ in range(chance.randint(1, 3))]
    return chance.choice((gw.chain, gw.residual))(*made)


def tensor(chance: random.Random) -> torch.Tensor:
    """Return an empty tensor of a random shape and dtype."""
    shape = [chance.randint(0, 6) for _ in range(chance.randint(0, 4))]
    return torch.empty(
        shape, dtype=chance.choice((torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32))
    )


def model(chance: random.Random) -> torch.nn.Module:
    """Return a small network."""
    units = [chance.randint(1, 8) for _ in range(chance.randint(2, 4))]
    modules: list[torch.nn.Module] = []
    for fan_in, fan_out in pairwise(units):
        modules += [torch.nn.Linear(fan_in, fan_out), chance.choice((torch.nn.ReLU, torch.nn.Tanh, torch.nn.GELU))()]
    return torch.nn.Sequential(*modules)


def probed(net: Any, inputs: Any, loss_fn: Any) -> Any:
    """Probe a network on inputs of its own width, unless others are given."""
    if inputs is None and isinstance(net, torch.nn.Sequential):
        inputs = torch.randn(4, net[0].in_features)
    return probe(net, inputs, loss_fn)


def on_own_inputs(function: Callable[..., Any], net: torch.nn.Sequential, loss_fn: Any, options: dict[str, Any]) -> Any:
    """Call a function of a network, inputs of its width and a loss."""
    return function(net, torch.randn(4, net[0].in_features), loss_fn, **options)


def table(chance: random.Random) -> dict[str, Any]:
    """Return a table of settings, some of them odd."""
    keys = (
        "data",
        "examples",
        "depth",
        "params",
        "width",
        "gain",
        "rate",
        "rate_in",
        "epochs",
        "seed",
        "activation",
        "runs",
        "name",
    )
    sane: dict[str, Maker] = {
        "data": v.one_of("digits", "mnits"),
        "examples": v.whole(1, 100),
        "depth": v.whole(2, 9),
        "params": v.power(3, 5),
        "activation": v.activation,
    }
    return {
        key: chance.choice(v.ODD)(chance) if chance.random() < 0.2 else sane.get(key, v.power(-3, 1))(chance)
        for key in chance.sample(keys, chance.randint(0, 6))
    }


SPEC = 'data = "digits"\nexamples = 50\ndepth = [3, 4]\nparams = 2e3\ngain = [1.0, "none"]\n[[runs]]\nseed = [0, 1]\n'


@cache
def archive() -> bytes:
    """Return a small tar archive with the files of a corpus."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tape:
        for name in ("dr1-mcpm0/sa1.phn", "dr1-mcpm0/sa1.wav", "README"):
            member = tarfile.TarInfo(name)
            member.size = 700
            tape.addfile(member, io.BytesIO(b"0 700 h#\n" * 77 + b"1234567"))
    return packed.getvalue()


@cache
def store_content() -> bytes:
    """Return the store of a small sweep."""
    run_sweep(Spec.load(SPEC, ["epochs=1"]), FOLDER / "store", threads=1, datasets=DATASETS)
    return (FOLDER / "store" / "sweep.sqlite").read_bytes()


@cache
def network_content() -> bytes:
    """Return the file of a small network."""
    path, names = FOLDER / "network.safetensors", ["tanh", "linear"]
    save_network(sequential([torch.ones(3, 2), torch.ones(2, 1)], [torch.ones(2), torch.ones(1)], names), names, path)
    return path.read_bytes()


@cache
def checkpoint_content() -> bytes:
    """Return the checkpoint of a small run."""
    path = FOLDER / "checkpoint.safetensors"
    state = State([torch.ones(3, 2)], [torch.ones(2)], history=[Epoch(1, 0.5, 3, 0.6, 4, 0, 0.1)], epochs=1)
    checkpoint.save_state(path, "run", state)
    return path.read_bytes()


@cache
def recording() -> bytes:
    """Return a recording in the SPHERE format."""
    lines = ["sample_count -i 500", "sample_rate -i 16000", "channel_count -i 1", "sample_n_bytes -i 2"]
    lines += ["sample_byte_format -s2 01", "sample_sig_bits -i 16", "sample_coding -s3 pcm"]
    return "\n".join(["NIST_1A", "   1024", *lines, "end_head\n"]).encode().ljust(1024) + bytes(1000)


def read_archive(content: bytes) -> int:
    """Read a corpus from an archive of this content."""
    path = FOLDER / "timit.tar.gz"
    path.write_bytes(content)
    return len(list(corpus.files(path)))


def read_store(content: bytes) -> int:
    """Read a store of this content."""
    folder = FOLDER / "damaged"
    folder.mkdir(exist_ok=True)
    (folder / "sweep.sqlite").write_bytes(content)
    with Store(folder) as store:
        return len(store.contents().results) + len(status(folder).unreadable)


def read_network(content: bytes) -> None:
    """Read a network from a file of this content, which must be that of the one saved."""
    path = FOLDER / "damaged.safetensors"
    path.write_bytes(content)
    model = load_network(path)
    assert all(bool((parameter == 1).all()) for parameter in model.parameters())


def read_checkpoint(content: bytes) -> None:
    """Read a checkpoint from a file of this content, which must be the one saved."""
    path = FOLDER / "damaged.safetensors"
    path.write_bytes(content)
    state = checkpoint.load_state(path, "run")
    assert state.history == [Epoch(1, 0.5, 3, 0.6, 4, 0, 0.1)]
    assert bool((state.weights[0] == 1).all())


def read_spec(content: bytes) -> Spec:
    """Read a spec from a file of this content."""
    path = FOLDER / "spec.toml"
    path.write_bytes(content)
    return Spec.load(path)


def planned(settings: list[str]) -> Any:
    """Plan a small sweep with settings that override it."""
    return plan(Spec.load(SPEC, settings), measure=False, datasets=DATASETS)


def arrays(x: Any, y: Any, classes: Any) -> Any:
    """Make a data set of arrays, which are the test split too."""
    return data.from_arrays("fuzz", train=(x, y), test=(x, y), classes=classes)


chain = {"activation": v.activation, "width": v.width, "depth": v.depth, "weights": v.weights, "seed": v.seed}
TARGETS = (
    Target("activation", gw.activation, {"name": v.activation}, renamed, 30),
    Target(
        "Activation",
        gw.Activation,
        {"name": v.activation, "f": v.one_of(np.tanh), "derivative": v.one_of(np.cos), "kinks": v.several(v.gain)},
    ),
    Target(
        "scaled",
        lambda name, scale: gw.activation(name).scaled(scale),
        {"name": v.neutral, "scale": v.power(-12, 12)},
        renamed,
    ),
    Target(
        "leaking",
        lambda name, leak: gw.activation(name).leaking(leak),
        {"name": v.activation, "leak": v.one_of(0.0, 0.5, 0.97, 1e-300, 1.0)},
        renamed,
    ),
    Target(
        "register",
        gw.register,
        {
            "name": v.mutated(v.one_of("fuzzed")),
            "f": v.one_of(np.tanh, np.exp, np.sqrt),
            "derivative": v.maybe(v.one_of(np.exp)),
            "kinks": v.several(v.gain),
        },
    ),
    Target("kind", gw.kind, {"activation": v.activation}),
    Target("q_map", gw.q_map, {"activation": v.activation, "q": v.q, "gain": v.gain}, homogeneous, 20),
    Target("chi", gw.chi, {"activation": v.activation, "q": v.power(-200, 8), "gain": v.gain}, finite, 20),
    Target("elasticity", gw.elasticity, {"activation": v.activation, "q": v.q}, finite, 20),
    Target(
        "correlation_map",
        gw.correlation_map,
        {"activation": v.activation, "correlation": v.one_of(-1.0, -0.3, 0.0, 0.5, 1.0), "q": v.q},
        correlated,
    ),
    Target("correlation_slope", gw.correlation_slope, {"activation": v.activation, "q": v.q}, finite, 5),
    Target(
        "correlation_fixed_point", gw.correlation_fixed_point, {"activation": v.activation, "q": v.q}, correlated, 3
    ),
    Target("fixed_point", gw.fixed_point, {"activation": v.activation, "gain": v.gain}, finite, 4),
    Target(
        "step",
        gw.step,
        {
            "activation": v.activation,
            "width": v.width,
            "q": v.q,
            "weights": v.weights,
            "formula": v.one_of("exact", "paper"),
        },
        finite,
        10,
    ),
    Target(
        "gain",
        gw.gain,
        {"activation": v.neutral, "width": v.width, "weights": v.weights, "formula": v.one_of("exact", "paper")},
        unbiased,
        20,
    ),
    Target(
        "gain of widths",
        gw.gain,
        {"activation": v.neutral, "width": v.several(v.width), "depth": v.maybe(v.depth)},
        finite,
    ),
    Target("describe_gain", gw.describe_gain, {"activation": v.neutral, "width": v.width, "depth": v.depth}),
    Target("solve_gain", gw.solve_gain, chain | {"walks": v.whole(8, 12)}, weight=1),
    Target(
        "max_depth",
        gw.max_depth,
        {"activation": v.neutral, "width": v.width, "spread": v.power(-7, 7), "weights": v.weights},
    ),
    Target(
        "min_width",
        gw.min_width,
        {"activation": v.neutral, "depth": v.depth, "spread": v.power(-7, 7), "weights": v.weights},
        weight=3,
    ),
    Target(
        "simulate",
        gw.simulate,
        {
            "activation": v.activation,
            "width": v.width,
            "depth": v.depth,
            "gain": v.gain,
            "walks": v.whole(1, 20),
            "rng": v.seed,
            "weights": v.weights,
            "method": v.one_of("exact", "dense"),
            "every": v.whole(1, 5),
        },
        sampled,
        20,
    ),
    Target(
        "simulate pairs",
        lambda activation, width, depth, weights, pair: gw.simulate(
            activation, width, depth, gain=1.2, walks=3, rng=0, weights=weights, pair=pair
        ),
        {
            "activation": v.activation,
            "width": v.width,
            "depth": v.depth,
            "weights": v.weights,
            "pair": v.one_of("gradients", "inputs", None),
        },
    ),
    Target("directions", gw.directions, chain | {"networks": v.whole(2, 12)}, weight=1),
    Target("leak_for", gw.leak_for, {"activation": v.neutral, "width": v.width, "depth": v.depth}, weight=1),
    Target("advise", gw.advise, {"activation": v.neutral, "width": v.width, "depth": v.depth}, weight=1),
    Target(
        "dropout of a chain",
        lambda activation, width, dropout: gw.gain(activation, width, dropout=dropout),
        {"activation": v.neutral, "width": v.width, "dropout": v.one_of(0.0, 0.3, 0.999, 1.0)},
        lambda arguments, answer: finite(arguments, answer),
    ),
    Target(
        "simulate blocks",
        lambda block, width, depth: gw.simulate(block, width, depth, walks=3, rng=0),
        {"block": block, "width": v.width, "depth": v.depth},
    ),
    Target(
        "branch_scale",
        gw.branch_scale,
        {
            "block": v.neutral,
            "width": v.width,
            "blocks": v.depth,
            "drift": v.power(-1, 0),
            "walks": v.whole(8, 12),
            "seed": v.seed,
        },
        weight=1,
    ),
    Target(
        "dense",
        gw.dense,
        {"activation": v.activation, "gain": v.gain, "dropout": v.one_of(0.0, 0.5), "width": v.maybe(v.width)},
    ),
    Target("norm", gw.norm, {"kind": v.one_of("layer", "rms"), "groups": v.whole(1, 4)}),
    Target("dropout", gw.dropout, {"rate": v.one_of(0.0, 0.5, 0.99)}),
    Target(
        "residual",
        lambda part, scale, skip: gw.residual(part, scale=scale, skip=skip),
        {"part": block, "scale": v.gain, "skip": v.gain},
    ),
    Target("chain", lambda one, other: gw.chain(one, other), {"one": block, "other": block}),
    Target(
        "random_walk_",
        random_walk_,
        {
            "tensor": tensor,
            "activation": v.neutral,
            "gain": v.maybe(v.power(-50, 50)),
            "weights": v.weights,
            "generator": v.one_of(None),
        },
        filled,
        20,
    ),
    Target("init_", init_, {"model": model}, weight=3, typed=True),
    Target("plan of a model", model_plan, {"model": model}, weight=3, typed=True),
    Target(
        "Leak", Leak, {"activation": v.one_of(torch.nn.GELU(), torch.nn.Tanh(), torch.nn.Linear(2, 2)), "leak": v.gain}
    ),
    Target("find_layers", find_layers, {"model": model}, weight=5, typed=True),
    Target(
        "probe",
        probed,
        {"net": model, "inputs": v.one_of(None), "loss_fn": v.one_of(torch.sum, torch.sum, str, "mse", 3, None)},
        weight=2,
        typed=True,
    ),
    Target(
        "calibrate_",
        partial(on_own_inputs, calibrate_),
        {
            "net": model,
            "loss_fn": v.one_of(torch.sum, torch.sum, str, 3),
            "options": v.one_of({}, {"rounds": 0}, {"tolerance": math.nan}, {"rounds": "x"}, {"activation": 7}),
        },
        weight=2,
        typed=True,
    ),
    Target(
        "compare",
        partial(on_own_inputs, compare),
        {
            "net": model,
            "loss_fn": v.one_of(torch.sum, torch.sum, str, None),
            "options": v.one_of({}, {"activation": 7}),
        },
        weight=2,
        typed=True,
    ),
    Target(
        "classifier_widths",
        classifier_widths,
        {"inputs": v.width, "classes": v.width, "depth": v.whole(2, 50), "params": v.power(2, 10)},
        smallest_above,
    ),
    Target(
        "autoencoder_widths",
        autoencoder_widths,
        {"inputs": v.width, "depth": v.one_of(4, 6, 8, 9), "params": v.power(2, 9)},
        smallest_above,
    ),
    Target(
        "parse_optimizer",
        parse_optimizer,
        {"text": v.mutated(v.one_of("sgd", "adam(beta2=0.99)", "momentum(0.95)", "adamw(0.9, 0.99)"))},
    ),
    Target("check_device", check_device, {"device": v.mutated(v.one_of("cpu", "cuda", "cuda:1", "meta"))}),
    Target(
        "stack_bytes",
        stack_bytes,
        {
            "widths": v.one_of((4, 3, 2)),
            "activations": v.one_of(("relu", "linear")),
            "networks": v.width,
            "batch": v.width,
        },
        weight=5,
    ),
    Target("a network", read_network, {"content": v.spoiled(network_content)}, typed=True),
    Target("a checkpoint", read_checkpoint, {"content": v.spoiled(checkpoint_content)}, typed=True),
    Target(
        "write_table",
        write_table,
        {"results": v.one_of([]), "path": v.one_of(FOLDER / "t.csv", FOLDER / "t.xls"), "by_epoch": v.one_of(True)},
        weight=1,
        typed=True,
    ),
    Target("checked_run", lambda settings: checked_run("fuzz", **settings), {"settings": table}, weight=20, typed=True),
    Target(
        "depth_rates",
        depth_rates,
        {
            "depth": v.whole(2, 50),
            "rate_in": v.power(-300, 300),
            "rate_out": v.power(-300, 300),
            "deepest": v.maybe(v.whole(2, 100)),
        },
        lambda arguments, rates: finite(arguments, tuple(rates)),
    ),
    Target(
        "Spec.load",
        Spec.load,
        {
            "source": v.mutated(v.one_of(SPEC)),
            "overrides": v.several(v.mutated(v.one_of("gain=[1.0, 1.1]", "epochs=3", "data=digits")), 2),
        },
        read_back,
        20,
    ),
    Target("Spec.parse", Spec.parse, {"content": table}, read_back),
    Target("a spec in a file", read_spec, {"content": v.spoiled(SPEC.encode)}, read_back, typed=True),
    Target(
        "plan",
        planned,
        {"settings": v.several(v.mutated(v.one_of("gain=[1.0, 1.1]", "depth=5", "params=1e4", "width=7")), 2)},
        weight=5,
        typed=True,
    ),
    Target(
        "run_sweep",
        run_sweep,
        {
            "spec": v.one_of("nothing"),
            "folder": v.one_of(""),
            "engine": v.one_of("local", "ray"),
            "device": v.one_of("foo"),
            "threads": v.one_of(0),
        },
        weight=2,
    ),
    Target("a store", read_store, {"content": v.spoiled(store_content)}, typed=True),
    Target("an archive", read_archive, {"content": v.spoiled(archive)}, weight=20, typed=True),
    Target(
        "phones.parse",
        phones.parse,
        {"text": v.mutated(v.one_of("0 700 h#\n700 900 aa\n")), "origin": v.one_of("here")},
        typed=True,
    ),
    Target("audio.samples", audio.samples, {"content": v.spoiled(recording), "origin": v.one_of("here")}, typed=True),
    Target(
        "load",
        data.load,
        {
            "name": v.mutated(v.one_of("digits")),
            "examples": v.maybe(v.whole(1, 100)),
            "scaling": v.one_of("dimension", "global", "none"),
        },
        weight=1,
    ),
    Target(
        "from_arrays",
        arrays,
        {
            "x": v.one_of(np.arange(12.0).reshape(6, 2), np.ones((6, 0)), np.full((6, 2), np.nan)),
            "y": v.one_of(np.arange(6) % 2, np.arange(5)),
            "classes": v.maybe(v.width),
        },
    ),
    Target("title", data.title, {"name": v.mutated(v.one_of("mnist"))}, weight=2),
    Target("full_size", data.full_size, {"name": v.mutated(v.one_of("mnist"))}, weight=2),
    Target("Examples.first", DIGITS.train.first, {"count": v.whole(1, 100)}, weight=2),
)
