"""What the driver of a simulation asks of a sampler: layers drawn on the way forward, and the gradient's way back."""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from gradwalk.activations import Array
from gradwalk.checks import Weights
from gradwalk.simulation.arena import Arena
from gradwalk.simulation.signal import Output

OutputT = TypeVar("OutputT", bound=Output)
HandedT = TypeVar("HandedT", bound=Output, covariant=True)


class Layer(Protocol[HandedT]):
    """One layer of a block of walks, one row per walk; a sampler adds what its own backward pass needs."""

    @property
    def log_scale(self) -> Array:
        """ln of the standard deviation of the pre-activations."""

    @property
    def output(self) -> HandedT:
        """What the layer hands on."""

    @property
    def resampled(self) -> int:
        """How many times the layer was resampled because nothing passed it."""


LayerT = TypeVar("LayerT", bound=Layer[Any])
DrawnT = TypeVar("DrawnT", bound=Layer[Any], covariant=True)
GradientT = TypeVar("GradientT")
ReadT = TypeVar("ReadT", bound=Output, contravariant=True)


class LayerSampler(Protocol[DrawnT, ReadT]):
    """Draws the layers of a block of walks one by one.

    `DrawnT` is what it keeps of a layer until the backward pass, `ReadT` what a layer reads of the one below; networks
    are described by an activation or by a block. Arrays of layers may be allocated in the arena, which the driver
    clears.
    """

    arena: Arena
    luck: Array | float
    block_factor: ClassVar[float]  # of BLOCK_BYTES: a layer that takes more calls of NumPy is drawn for more walks
    kept_bytes: ClassVar[int | None]  # of one layer of one walk, until the backward pass; None: all of layer_bytes

    def __init__(self, network: Any, /, weights: Weights, arena: Arena, seed: np.random.SeedSequence) -> None: ...

    @staticmethod
    def layer_bytes(width_in: int, width_out: int) -> int:
        """Return how many bytes of one layer of one walk are in use while it is drawn."""

    def mark(self) -> Callable[[], None]:
        """Return a function that rewinds the forward draws to this point, so that the same layers are drawn again.

        It may be called once.
        """

    def first(self, walks: int, width: int) -> DrawnT:
        """Return layer 0, whose pre-activations are independent with unit variance."""

    def forward(self, below: ReadT, width: int, gain: float) -> DrawnT:
        """Return the layer above `below`, with pre-activations a = g W h (eq. 1)."""


class Sampler(LayerSampler[LayerT, ReadT], Protocol[LayerT, ReadT, GradientT]):
    """Draws the layers of a block of walks, and propagates a gradient, or two of them, back through them.

    `GradientT` is what it keeps of the gradient.
    """

    def top(self, below: ReadT, width: int, gain: float) -> tuple[Array, GradientT]:
        """Return ln of the scale of the last layer's pre-activations, and a random gradient there."""

    def backward(self, gradient: GradientT, layer: LayerT) -> tuple[GradientT, Array]:
        """Return the gradient at `layer`, one layer down, and ln of the factor by which |delta| grows at gain 1."""
