"""How many directions pass through a thousand tanh layers: singular values of the Jacobian from input to output.

The product of the layers' Jacobians is computed in double precision and divided by its norm after each layer, so that
it neither overflows nor vanishes. Singular values down to about 1e-13 of the largest are exact but for rounding. The
effective rank is (sum s^2)^2 / sum s^4.

    python results/thousand/jacobian.py > results/thousand/jacobian.csv
"""

import csv
import sys

import numpy as np

DEPTH = 1000
NETWORKS = (("gaussian", 128, 1.102), ("gaussian", 249, 1.05), ("orthogonal", 64, 1.052))  # weights, width, gain
SEEDS = 3


def log_singular_values(weights: str, width: int, gain: float, seed: int) -> np.ndarray:
    """Return those of one network's Jacobian at a random input, the largest first."""
    rng = np.random.default_rng(seed)
    h, product, log_norm = rng.standard_normal(width), np.eye(width), 0.0
    for _ in range(DEPTH):
        weight = rng.standard_normal((width, width)) / np.sqrt(width)
        if weights == "orthogonal":
            weight, r = np.linalg.qr(weight)
            weight *= np.sign(np.diag(r))
        weight *= gain
        h = np.tanh(weight @ h)
        product = (1 - h**2)[:, None] * weight @ product
        norm = np.linalg.norm(product)
        product, log_norm = product / norm, log_norm + np.log(norm)
    return log_norm + np.log(np.linalg.svd(product, compute_uv=False))


def main() -> None:
    """Write one row per network."""
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(("weights", "width", "gain", "seed", "effective_rank", *(f"log_s{place}" for place in range(1, 6))))
    for weights, width, gain in NETWORKS:
        for seed in range(SEEDS):
            logs = log_singular_values(weights, width, gain, seed)
            squares = np.exp(2 * (logs - logs[0]))
            rank = squares.sum() ** 2 / (squares**2).sum()
            table.writerow((weights, width, gain, seed, f"{rank:.2f}", *(f"{each:.2f}" for each in logs[:5])))


if __name__ == "__main__":
    main()
