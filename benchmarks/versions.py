"""This version against another one: what users wait for, in turns, each version in a process of its own.

    python benchmarks/versions.py --other OTHER/.venv/bin/python

OTHER is a clone at another commit with an environment of its own. Operations that one of the versions does not have are
left out.
"""

import argparse
import itertools
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from setting import Spread, Table, number, setting

COMMAND = "import sys; from gradwalk.cli import main;"
FRESH = {
    "import gradwalk": "import gradwalk",
    "import gradwalk.torch": "import gradwalk.torch",
    "the first gain of tanh": "import gradwalk; gradwalk.gain('tanh', 100, 200)",
    "gradwalk --help": f"{COMMAND} sys.argv[1:] = ['--help']; main()",
    "gradwalk gain relu": f"{COMMAND} sys.argv[1:] = 'gain relu --width 100 --depth 50'.split(); main()",
}
SWEEP = """
data = "digits"
examples = 500
params = 2e4
depth = [4, 8, 16]
gain = [1.0, 1.2]
seed = [0, 1, 2]
epochs = 4
"""


def simulations(gw: ModuleType, fresh: Callable[[], int]) -> dict[str, Callable[[], object]]:
    """Return the simulations; `fresh` returns a new number each time."""

    def simulate(name: str, width: int, depth: int, gain: float, walks: int, more: dict[str, str]) -> object:
        return gw.simulate(name, width, depth, gain=gain, walks=walks, rng=fresh(), **more)

    cases: list[tuple[str, int, int, float, int, dict[str, str]]] = [
        ("tanh", 100, 200, 1.1, 400, {}),
        ("tanh", 1000, 50, 1.1, 200, {}),
        ("tanh", 10, 200, 1.2, 400, {}),
        ("gelu", 100, 50, 1.4, 400, {}),
        ("relu", 100, 200, 1.42, 400, {}),
        ("tanh", 100, 50, 1.1, 400, {"weights": "orthogonal"}),
        ("tanh", 100, 20, 1.1, 40, {"method": "dense"}),
    ]
    return {
        " ".join([f"simulate {name}", *more.values(), f"{depth} x {width}, {walks} walks"]): partial(
            simulate, name, width, depth, gain, walks, more
        )
        for name, width, depth, gain, walks, more in cases
    }


def theory(gw: ModuleType, fresh: Callable[[], int]) -> dict[str, Callable[[], object]]:
    """Return the gains and what else is computed without networks, each at a width that was not asked for before."""
    return {
        "gain of tanh": lambda: gw.gain("tanh", 100 + fresh(), 100),
        "gain of relu": lambda: gw.gain("relu", 100 + fresh(), 100),
        "gain of gelu": lambda: gw.gain("gelu", 300 + fresh(), 20),
        "step of tanh": lambda: gw.step("tanh", 100 + fresh(), q=0.5),
        "q_map, chi and fixed_point": lambda: [
            gw.q_map("tanh", 0.5, 1.1),
            gw.chi("tanh", 0.5, 1.1),
            gw.fixed_point("tanh", 1.3),
        ],
        "min_width of relu": lambda: gw.min_width("relu", 100 + fresh()),
        "max_depth of tanh": lambda: gw.max_depth("tanh", 60 + fresh() % 40),
    }


def models() -> dict[str, Callable[[], object]]:
    """Return what is done to PyTorch models: a deep chain, a wide one, and one of padded convolutions."""
    import torch
    from torch import nn

    import gradwalk.torch as gwt

    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)

    def chain(depth: int, width: int, activation: type[nn.Module], gain: float) -> nn.Sequential:
        layers: list[nn.Module] = []
        for _ in range(depth):
            layers += [nn.Linear(width, width, bias=False), activation()]
            nn.init.normal_(layers[-2].weight, std=gain / math.sqrt(width), generator=draw)  # type: ignore[arg-type]
        return nn.Sequential(*layers[:-1])

    deep = {"tanh": chain(64, 100, nn.Tanh, 1.1), "relu": chain(64, 100, nn.ReLU, 1.43)}
    wide, x = chain(20, 1000, nn.Tanh, 1.1), torch.randn(100, 100, generator=draw)
    convolutions = nn.Sequential(*itertools.chain(*((nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()) for _ in range(16))))
    images = torch.randn(16, 16, 12, 12, generator=draw)

    def drawn(model: nn.Module, **options: Any) -> None:
        """Draw the weights of a model whose own ones are too large, or they would be left alone."""
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(3.0)
        gwt.init_(model, **options)

    def loss(output: torch.Tensor) -> torch.Tensor:
        return output.square().mean()

    def steps(every: int) -> None:
        optimizer = torch.optim.SGD(deep["tanh"].parameters(), 1e-9)
        with gwt.Monitor(deep["tanh"], every) as monitor:
            for _ in range(5):
                optimizer.zero_grad()
                loss(deep["tanh"](x)).backward()  # type: ignore[no-untyped-call]
                monitor.step()
                optimizer.step()

    return {
        "init_, 64 x 100 tanh": lambda: drawn(deep["tanh"]),
        "init_, 64 x 100 relu": lambda: drawn(deep["relu"]),
        "init_, 64 x 100 tanh, orthogonal": lambda: drawn(deep["tanh"], weights="orthogonal"),
        "init_, 20 x 1000 tanh": lambda: drawn(wide),
        "init_, 16 padded convolutions": lambda: drawn(convolutions, example=images),
        "probe, 64 x 100 tanh": lambda: gwt.probe(deep["tanh"], x, loss),
        "probe, 64 x 100 relu": lambda: gwt.probe(deep["relu"], x, loss),
        "probe, 20 x 1000 tanh": lambda: gwt.probe(wide, torch.randn(16, 1000), loss),
        "probe, 16 padded convolutions": lambda: gwt.probe(convolutions, images, loss),
        "calibrate_, 64 x 100 relu": lambda: gwt.calibrate_(deep["relu"], x, loss),
        "5 steps, Monitor every step": lambda: steps(1),
        "5 steps, Monitor every 100": lambda: steps(100),
    }


def sweep() -> None:
    """Train the 18 runs of a small sweep."""
    from gradwalk.sweep import Spec, run_sweep

    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "small.toml"
        spec.write_text(SWEEP)
        run_sweep(Spec.load(spec), Path(folder) / "out", threads=1)


def operations() -> dict[str, Callable[[], object]]:
    """Return everything that is timed in one process, by name."""
    import gradwalk as gw

    fresh = itertools.count(1).__next__
    return {**simulations(gw, fresh), **theory(gw, fresh), **models(), "a sweep of 18 small networks": sweep}


def serve() -> None:
    """Run the operations that are named on stdin, and answer each with the seconds that it took."""
    import warnings

    warnings.simplefilter("ignore")
    known = operations()
    print(*known, sep="\t", flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        try:
            known[line.rstrip("\n")]()
        except (TypeError, AttributeError, ValueError):  # the other version does not have it
            print("none", flush=True)
        else:
            print(time.perf_counter() - start, flush=True)


class Version:
    """A process that runs the operations with an interpreter of its own."""

    def __init__(self, python: str) -> None:
        self.python = python
        pipe: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": ENVIRONMENT}
        self.process = subprocess.Popen([python, __file__, "--serve"], cwd="/", **pipe)
        self.names = self._line().split("\t")

    def _line(self) -> str:
        assert self.process.stdout is not None
        return str(self.process.stdout.readline()).rstrip("\n")

    def seconds(self, name: str) -> float | None:
        """Return how long an operation takes, None if this version does not have it."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        answer = self._line()
        return None if answer == "none" else float(answer)

    def fresh_seconds(self, code: str) -> float:
        """Return how long a fresh process takes for some code."""
        start = time.perf_counter()
        subprocess.run([self.python, "-c", code], capture_output=True, check=True, cwd="/", env=ENVIRONMENT)
        return time.perf_counter() - start


ENVIRONMENT = os.environ | {"OPENBLAS_NUM_THREADS": "1"}


def main() -> None:
    """Time both versions in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", required=True, help="the Python of the other version's environment")
    parser.add_argument(
        "--seconds", type=float, default=6.0, help="for each operation, after its first run (default: 6)"
    )
    options = parser.parse_args()
    ours, other = Version(sys.executable), Version(options.other)
    print(", ".join(f"{key} {value}" for key, value in setting().items()))
    table = Table("this version / the other", ("operation", "time, ratio", "rounds", "ours, ms", "other, ms"))

    def add(name: str, of: Callable[[Version], float | None], least: int) -> None:
        if None in (of(ours), of(other)):
            table.add(name, "one version only", 0, "", "")
            return
        rounds: list[tuple[float, float]] = []
        end = time.monotonic() + options.seconds
        while len(rounds) < least or (time.monotonic() < end and len(rounds) < 200):
            first = ours if len(rounds) % 2 else other
            times = {version: of(version) or 0.0 for version in (first, other if first is ours else ours)}
            rounds.append((times[ours], times[other]))
        medians = [number(1e3 * Spread.of(side).median) for side in zip(*rounds, strict=True)]
        table.add(name, Spread.of([one / two for one, two in rounds]), len(rounds), *medians)

    for name in ours.names:
        add(name, lambda version, name=name: version.seconds(name), 5)  # type: ignore[misc]
    for name, code in FRESH.items():
        add(name, lambda version, code=code: version.fresh_seconds(code), 7)  # type: ignore[misc]


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve()
    else:
        main()
