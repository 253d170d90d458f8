"""What is kept of a simulation: one row per walk, one column per kept layer."""

from typing import NamedTuple

from gradwalk.activations import Array, Indices


class Pair(NamedTuple):
    """The second gradient of each walk, and the angles between the two.

    log_norm, log_variance: as those of the first gradient. cosine, log_sine: of the angle between the gradients at
    layer d; for two inputs, a sine below 1e-3 is rounding error. signal_cosine: of the angle between the
    pre-activations of two inputs; 1 for two gradients at one input.
    """

    log_norm: Array
    log_variance: Array
    cosine: Array
    log_sine: Array
    signal_cosine: Array


class Tracks(NamedTuple):
    """The walks of some networks, and of the second gradient of each if there is one; see `Walks`."""

    layers: Indices
    log_norm: Array
    log_variance: Array
    pair: Pair | None = None

    def rows(self, rows: slice) -> "Tracks":
        """Return a view of some of the rows."""
        pair = None if self.pair is None else Pair(*(values[rows] for values in self.pair))
        return Tracks(self.layers, self.log_norm[rows], self.log_variance[rows], pair)

    @property
    def column(self) -> dict[int, int]:
        """The column of each kept layer."""
        return {int(layer): index for index, layer in enumerate(self.layers)}
