"""Literal networks with two gradients each, in plain NumPy: an independent reference for the samplers of pairs."""

import itertools
import math
from typing import NamedTuple

import numpy as np

import gradwalk as gw


class LiteralPairs(NamedTuple):
    """One value per network: the final log-norms of both gradients, the cosines of gradients and of pre-activations."""

    first: np.ndarray
    second: np.ndarray
    cosine: np.ndarray
    signal_cosine: np.ndarray


def literal_pairs(name, widths, gain, networks, seed, weights="gaussian", inputs=1):
    """Return the final values of that many networks; inactive layers are drawn again, for both inputs."""
    f, rng = gw.activation(name), np.random.default_rng(seed)
    a = _active(f, lambda rows: (rng.standard_normal((len(rows), widths[0], inputs)), None), networks)[0]
    slopes, back = [f.derivative(a)], []
    for d, (n, out) in enumerate(itertools.pairwise(widths), 1):
        h = f.f(a)

        def draw(rows, h=h, n=n, out=out):
            drawn = gain * matrices(rng, len(rows), out, n, weights)
            return drawn @ h[rows], drawn

        last = d == len(widths) - 1  # nothing passes through the last layer's activation
        a, drawn = draw(np.arange(networks)) if last else _active(f, draw, networks)
        slopes.append(f.derivative(a))
        back.append(drawn)
    delta = rng.standard_normal((networks, widths[-1], 2))
    start = np.linalg.norm(delta, axis=1)
    for matrix, slope in zip(reversed(back), reversed(slopes[:-1]), strict=True):
        delta = slope * (matrix.transpose(0, 2, 1) @ delta)
    first, second = np.log(np.linalg.norm(delta, axis=1) / start).T
    return LiteralPairs(first, second, cosines(delta), cosines(a) if inputs == 2 else np.ones(networks))


def matrices(rng, count, out, n, weights):
    """Return matrices whose entries have variance 1 / n: Gaussian, or with Haar's rows or columns."""
    if weights == "gaussian":
        return rng.standard_normal((count, out, n)) / math.sqrt(n)
    q, r = np.linalg.qr(rng.standard_normal((count, max(out, n), min(out, n))))
    q = q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]
    return q.transpose(0, 2, 1) if out < n else q * math.sqrt(out / n)


def cosines(pairs):
    """Return the cosine of the two columns of each matrix, NaN where one is zero."""
    left, right = pairs[..., 0], pairs[..., 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        return (left * right).sum(axis=1) / np.sqrt((left**2).sum(axis=1) * (right**2).sum(axis=1))


def _active(f, draw, networks):
    """Return pre-activations and matrices in which every input of every network passes a signal and a gradient."""
    a, drawn = draw(np.arange(networks))
    while (dead := ~((f.f(a) != 0).any(axis=1) & (f.derivative(a) != 0).any(axis=1)).all(axis=1)).any():
        rows = np.flatnonzero(dead)
        a[rows], again = draw(rows)
        if drawn is not None:
            drawn[rows] = again
    return a, drawn
