"""Random matrices at two inputs: the images of both, and the transposed matrix given these.

With the images A = g W H, H = [h_1 h_2], the gradients U = [u_1 u_2] go back through a Gaussian W as
    W^T U = H (H^T H)^-1 A^T U / g + (I - P) Xi R / sqrt(N),   R^T R = U^T U,
P the projection to the plane of the h and Xi standard normal; for a Haar matrix see `haar.mix`. Both are exact in law.
Arrays have an axis for the input or the gradient in front of the walk.
"""

import math

import numpy as np

from gradwalk.activations import Array
from gradwalk.simulation import haar
from gradwalk.simulation.gram import gram
from gradwalk.simulation.normals import Normals, Span, column, dot


def images(normals: Normals, cosine: Array, width: int, width_in: int, orthogonal: bool) -> Array:
    """Return W h for two h of length sqrt(width_in) with that cosine (input, walk, component)."""
    x = normals.draw(2 * len(cosine), width).reshape(2, len(cosine), width)
    products = unit_products(cosine) * max(width_in, width)
    _mix(x, haar.mix(normals, gram(x), products, width_in - width) if orthogonal else independent(cosine))
    return x


def transposed(
    normals: Normals, span: Span, overlap: Array, cosine: Array, width_out: int, orthogonal: bool
) -> tuple[Array, float]:
    """Return W^T u of two unit vectors u, up to a factor, and the logarithm of that.

    `span` is that of the unit vectors of the h, `overlap[i, j]` the scalar product of the image of h_i, for an h of
    length sqrt(width_in), with u_j, and `cosine` that of the u.
    """
    _, walks, width = span.vectors.shape
    delta = normals.draw(2 * walks, width).reshape(2, walks, width)
    inside = dot(span.vectors[:, None], delta)
    coordinates, known, mix = span.solved(inside), span.solved(overlap), independent(cosine)
    log_factor = -0.5 * math.log(width)
    if orthogonal:
        known /= math.sqrt(max(width, width_out))
        left = unit_products(cosine) - contracted(overlap, known) / math.sqrt(max(width, width_out))
        mix = haar.mix(normals, gram(delta) - contracted(inside, coordinates), left, width_out - width)
        log_factor = haar.log_factor(width, width_out)
    removed = np.stack([coordinates[:, 0] * mix.first, coordinates[:, 0] * mix.mixed + coordinates[:, 1] * mix.second])
    _mix(delta, mix)
    span.add(delta, known - removed.swapaxes(0, 1))
    return delta, log_factor


def _mix(vectors: Array, mix: haar.Mix) -> None:
    """Mix two random vectors per walk in place."""
    vectors[1] *= column(mix.second)
    vectors[1] += vectors[0] * column(mix.mixed)
    if (mix.first != 1).any():
        vectors[0] *= column(mix.first)


def independent(cosine: Array) -> haar.Mix:
    """Return how random vectors are mixed into W^T u of two unit vectors u for a Gaussian W."""
    return haar.Mix(np.ones_like(cosine), cosine, np.sqrt(np.maximum(1 - cosine**2, 0.0)))


def unit_products(cosine: Array) -> Array:
    """Return the scalar products of two unit vectors (vector, vector, walk)."""
    one = np.ones_like(cosine)
    return np.stack([np.stack([one, cosine]), np.stack([cosine, one])])


def contracted(left: Array, right: Array) -> Array:
    """Return the product of a transposed 2 by 2 matrix with another, per walk."""
    return np.asarray(np.einsum("kiw,kjw->ijw", left, right))
