"""How many directions pass through a thousand tanh layers: singular values of literal networks, and the prediction.

The singular values of the Jacobian of each network are exact but for rounding. directions is their participation ratio,
predicted that of `gradwalk.directions`, which draws no matrix, with its standard error.

    python results/thousand/jacobian.py > results/thousand/jacobian.csv
"""

import csv
import sys

import gradwalk as gw
from gradwalk.simulation import jacobian_singular_values, participation_ratio

DEPTH = 1000
NETWORKS = (("gaussian", 128, 1.102), ("gaussian", 249, 1.05), ("orthogonal", 64, 1.052))  # weights, width, gain
SEEDS = 3
HEAD = ("weights", "width", "gain", "seed", "directions", "predicted", "standard_error")


def main() -> None:
    """Write one row per network."""
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow((*HEAD, *(f"log_s{place}" for place in range(1, 6))))
    for weights, width, gain in NETWORKS:
        predicted = gw.directions("tanh", width, DEPTH, weights=weights, gain=gain)
        numbers = f"{predicted.backward:.2f}", f"{predicted.standard_error:.2f}"
        for seed in range(SEEDS):
            logs = jacobian_singular_values("tanh", width, DEPTH, gain=gain, rng=seed, weights=weights)
            passing = f"{participation_ratio(logs)[0]:.2f}"
            table.writerow((weights, width, gain, seed, passing, *numbers, *(f"{each:.2f}" for each in logs[0, :5])))


if __name__ == "__main__":
    main()
