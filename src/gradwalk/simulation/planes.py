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
from gradwalk.simulation.normals import Normals, Span, column, dot


def images(normals: Normals, cosine: Array, width: int, width_in: int, orthogonal: bool) -> Array:
    """Return W h for two h of length sqrt(width_in) with that cosine (input, walk, component)."""
    x = normals.draw(2 * len(cosine), width).reshape(2, len(cosine), width)
    if orthogonal:
        haar.frame(normals, x, max(width_in - width, 0))
        x[0] *= np.float32(math.sqrt(max(width_in, width)))
    x[1] *= column(np.sqrt((1 - cosine**2) * (max(width_in, width) if orthogonal else 1)))
    x[1] += x[0] * column(cosine)
    return x


def transposed(
    normals: Normals, span: Span, overlap: Array, cosine: Array, width_out: int, orthogonal: bool
) -> tuple[Array, float]:
    """Return W^T u of two unit vectors u, up to a factor, and the logarithm of that.

    `span` is that of the unit vectors of the h, `overlap[i, j]` the scalar product of the image of h_i, for an h of
    length sqrt(width_in), with u_j, and `cosine` that of the u.
    """
    h = span.vectors
    delta = normals.draw(2 * h.shape[1], h.shape[2]).reshape(h.shape)
    inside = dot(h[:, None], delta)
    if orthogonal:
        mix = haar.mix(normals, delta, inside, span, cosine, overlap, width_out)
    else:
        mix = _independent(span.solved(overlap), cosine, h.shape[2])
    first, mixed, second, known, log_factor = mix
    inside = span.solved(inside)
    span_part = known - np.stack([inside[:, 0] * first, inside[:, 0] * mixed + inside[:, 1] * second], axis=1)
    delta[1] *= column(second)
    delta[1] += delta[0] * column(mixed)
    if orthogonal:  # otherwise it is 1
        delta[0] *= column(first)
    span.add(delta, span_part)
    return delta, log_factor


def _independent(known: Array, cosine: Array, width_in: int) -> haar.Mix:
    """Return how normal vectors are mixed into W^T u of two unit vectors for a Gaussian W."""
    sine = np.sqrt(np.maximum(1 - cosine**2, 0.0))
    return haar.Mix(np.ones_like(cosine), cosine, sine, known, -0.5 * math.log(width_in))
