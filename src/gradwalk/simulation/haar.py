"""Haar orthogonal matrices without the matrices: the image of a vector, and the transposed matrix given that image.

W has orthonormal rows, or columns where those are fewer, scaled so that its entries have variance 1 / width_in.
"""

import math

import numpy as np

from gradwalk.activations import Array
from gradwalk.simulation.normals import Normals, column, dot


def image(normals: Normals, walks: int, width: int, width_in: int) -> Array:
    """Return W h for an h of length sqrt(width_in), one row per walk: uniform on a sphere, or a projection of it."""
    x = normals.draw(walks, width)
    squared = dot(x, x)
    if width < width_in:  # x is a projection of a vector uniform on the sphere of the larger space
        squared += 2 * normals.rng.standard_gamma((width_in - width) / 2, walks)
    x *= column(math.sqrt(max(width_in, width)) / np.sqrt(squared))
    return x


def transposed(normals: Normals, delta: Array, overlap: Array, along: Array, width_out: int) -> float:
    """Turn standard normal `delta` in place into W^T u of a unit vector u, up to a factor; return its logarithm.

    `along` is the unit vector of h, `overlap` the scalar product of u with the image of h.
    """
    n = delta.shape[1]
    cosine = overlap / math.sqrt(max(n, width_out))
    rest = np.maximum(1 - cosine**2, 0.0)
    if 1 < n < width_out:  # only a random part of the component orthogonal to the image passes
        rest *= normals.rng.beta((n - 1) / 2, (width_out - n) / 2, len(rest))
    delta -= along * column(dot(along, delta))
    delta *= column(np.sqrt(rest / dot(delta, delta)) if n > 1 else np.zeros(len(rest)))
    delta += along * column(cosine)
    return 0.5 * math.log(max(width_out / n, 1.0))
