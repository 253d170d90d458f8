"""Memory for the layers that wait for the way back, allocated once: fresh pages cost more than drawing numbers."""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from gradwalk.activations import Array


class Arena:
    """A stretch of memory given out piece by piece and taken back all at once."""

    def __init__(self, nbytes: int) -> None:
        self._memory = np.empty(nbytes, dtype=np.uint8)
        self._used = 0

    def take(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return an uninitialised array that is good until the next clear()."""
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        piece = self._memory[self._used : self._used + nbytes]
        self._used += nbytes
        view: np.ndarray[Any, Any] = piece.view(dtype).reshape(shape)
        return view

    def keep(self, array: Array) -> Array:
        """Return a copy of the array in the arena."""
        copy = self.take(array.shape, array.dtype)
        copy[...] = array
        return copy

    def clear(self) -> None:
        """Take all pieces back."""
        self._used = 0
