"""The cost of walks of two gradients against walks of one: at one input and at two, timed in turns in one process.

Both sides draw vectors; linear, relu and leaky_relu walks of one gradient, which draw none, are not compared.
"""

import functools
import math
from typing import Any

import numpy as np
from setting import Answer, Spread, Table, main, number, seconds

from gradwalk import Activation, activation, simulate

DEPTH = 20
WALKS = {100: 4000, 1000: 600}  # by width
GAINS = {"relu": 1.4323, "tanh": 1.143}
KINDS = (None, "gradients", "inputs")
LIMIT = 3.0


def with_vectors(name: str) -> Activation:
    """Return the activation with another kink, which keeps a neutral one from being sampled without vectors."""
    f = activation(name)
    return Activation(f.name, f.f, f.derivative, (*f.kinks, 1.0))


def compare(name: str, width: int, weights: str, rounds: int) -> dict[str, Any]:
    """Return one row: seconds of each kind, and the ratios of the pairs to single walks."""
    f, walks = with_vectors(name), WALKS[width]

    def sample(kind: str | None, seed: int) -> np.ndarray:
        return simulate(f, width, DEPTH, gain=GAINS[name], walks=walks, rng=seed, weights=weights, pair=kind).final

    single = sample(None, 99)
    for kind in KINDS[1:]:
        other = sample(kind, 98)
        assert abs(single.mean() - other.mean()) < 4.5 * single.std() * math.sqrt(2 / walks), (name, width, kind)
    times: dict[str | None, list[float]] = {kind: [] for kind in KINDS}
    for seed in range(rounds):
        for kind in KINDS:
            times[kind].append(seconds(functools.partial(sample, kind, seed)))
    ratios = {
        kind: vars(Spread.of([pair / one for pair, one in zip(times[kind], times[None], strict=True)]))
        for kind in KINDS[1:]
    }
    return {"activation": name, "width": width, "weights": weights, "single": min(times[None]), **ratios}


def measure(quick: bool) -> Answer:
    """Return the times of pairs in those of single walks."""
    heads = ("activation", "width", "weights", "one gradient, ms", "two at one input / one", "two inputs / one")
    table = Table(f"Walks of two gradients against walks of one, {DEPTH} layers", heads)
    answer = Answer([table])
    for name in GAINS:
        for width in WALKS:
            for weights in ("gaussian", "orthogonal"):
                row = compare(name, width, weights, 1 if quick else 31)
                answer.numbers.append(row)
                shown = [Spread(**row[kind]) for kind in KINDS[1:]]
                table.add(name, width, weights, number(1e3 * row["single"]), *shown)
    for width in WALKS:
        worst = max(row[kind]["median"] for row in answer.numbers if row["width"] == width for kind in KINDS[1:])
        answer.aim(f"pairs cost at most {LIMIT:g} times single walks at N={width}", number(worst), worst <= LIMIT)
    return answer


if __name__ == "__main__":
    main(__doc__, measure)
