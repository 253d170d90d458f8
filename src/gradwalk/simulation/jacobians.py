"""Singular values of the Jacobians of literal networks: what `participation` estimates without drawing a matrix."""

import numpy as np

from gradwalk import activations, checks
from gradwalk.activations import Activation, Array
from gradwalk.checks import Weights
from gradwalk.progress import progress
from gradwalk.simulation.dense import random_matrices


def jacobian_singular_values(
    activation: str | Activation,
    width: int,
    depth: int,
    *,
    gain: float,
    networks: int = 1,
    rng: int | np.random.Generator | None = None,
    weights: Weights = "gaussian",
) -> Array:
    """Return ln of the singular values (network, value) of literal networks, from layer 0 to layer D, largest first.

    Exact but for rounding down to about 1e-13 of the largest one of a network. The product of the Jacobians of the
    layers is divided by its norm after each layer, so that it neither overflows nor vanishes. The cost is O(width^3)
    per layer.

    Args:
        activation: a name such as "tanh" or "gelu@0.8", or an `Activation`.
        width: units per layer.
        depth: the number of weight layers.
        gain: the factor on the weights.
        networks: how many to draw.
        rng: a NumPy generator, or the seed of one.
        weights: "gaussian", or "orthogonal" for Haar orthogonal matrices.

    Returns:
        The logarithms, -inf for directions that are lost altogether.

    Raises:
        ValueError: if an argument is out of range, no activation has that name, or a signal overflows.

    >>> jacobian_singular_values("linear", 3, 5, gain=1.0, rng=0, weights="orthogonal").round(6) + 0.0
    array([[0., 0., 0.]])
    """
    where = "jacobian_singular_values"
    f = activations.activation(activation)
    n, layers = checks.whole(where, "width", width), checks.whole(where, "depth", depth, most=checks.DEEPEST)
    count, g = checks.whole(where, "networks", networks), checks.positive(where, "gain", gain)
    checks.one_of(where, "weights", weights, checks.WEIGHTS)
    generator = np.random.default_rng(rng)
    a, log_norm = generator.standard_normal((count, n, 1)), np.zeros(count)
    product = np.broadcast_to(np.eye(n), (count, n, n))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"), progress(f"{f} Jacobians", layers) as job:
        for _ in range(layers):
            matrix = g * random_matrices(generator, (count, n, n), weights)
            product = matrix @ (f.derivative(a) * product)
            norm = np.linalg.norm(product, axis=(1, 2))
            product, log_norm = product / norm[:, None, None], log_norm + np.log(norm)
            a = matrix @ f.f(a)
            job.advance()
        if not np.isfinite(product).all():
            raise ValueError(f"{where}: the signal or the gradient of {f} vanishes or overflows; use another gain")
        return np.asarray(log_norm[:, None] + np.log(np.linalg.svd(product, compute_uv=False)))


def participation_ratio(log_values: Array) -> Array:
    """Return (sum s^2)^2 / sum s^4 of each network, given ln of its singular values, largest first.

    >>> participation_ratio(np.log([[2.0, 2.0, 1e-9], [1.0, 1e-9, 1e-9]])).round(6)
    array([2., 1.])
    """
    squares = np.exp(2 * (log_values - log_values[:, :1]))
    return np.asarray(squares.sum(axis=1) ** 2 / (squares**2).sum(axis=1))
