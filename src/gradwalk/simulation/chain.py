"""The forward pass of a chain without its matrices: the part that all exact samplers of chains share."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from gradwalk.activations import Activation, Array, Indices
from gradwalk.blocks import Dense
from gradwalk.checks import Weights
from gradwalk.simulation import haar
from gradwalk.simulation.arena import Arena
from gradwalk.simulation.normals import Normals, gaussian_image
from gradwalk.simulation.signal import Response, active, dropped


class Chain:
    """Draws the layers of a chain, described by its activation or by the weight layer that it repeats.

    Forward, W h has independent components of variance |h|^2 / N for a Gaussian W, and is uniform on a sphere for a
    Haar orthogonal one. Components are drawn in single precision.
    """

    block_factor: ClassVar[float] = 1.0
    kept_bytes: ClassVar[int | None] = None

    def __init__(
        self, network: Activation | Dense, weights: Weights, arena: Arena, seed: np.random.SeedSequence
    ) -> None:
        forward, backward = seed.spawn(2)
        layer = network if isinstance(network, Dense) else Dense(network)
        self.activation, self.dropout = layer.activation, layer.dropout
        self.orthogonal, self.arena = weights == "orthogonal", arena
        self._forward, self._backward = Normals(forward), Normals(backward)
        self.luck: Array | float = 0.0

    def mark(self) -> Callable[[], None]:
        """Return a function that rewinds the forward draws to this point."""
        return self._forward.mark()

    def _image(self, walks: int, width: int, width_in: int) -> Array:
        """Return W h for an h of length sqrt(width_in): components of unit variance."""
        return (haar.image if self.orthogonal else gaussian_image)(self._forward, walks, width, width_in)

    def _active(
        self, draw: Callable[[Indices], Array], log_scale: Array, inputs: int = 1
    ) -> tuple[Array, Response, int]:
        """Return x as drawn by `draw`, the response to it, and how many layers were resampled."""
        return active(self.activation, draw, log_scale, self._drop, inputs)

    def _drop(self, response: Response) -> Response:
        if not self.dropout:
            return response
        return dropped(response, self._forward.mask(response.slope.shape, self.dropout))
