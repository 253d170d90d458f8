"""Memory for the layers that wait for the backward pass, allocated once: new pages cost more than random numbers."""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from gradwalk.activations import Array


class Arena:
    """A block of memory from which arrays are taken one by one and released all at once."""

    def __init__(self, nbytes: int) -> None:
        self._memory = np.empty(nbytes, dtype=np.uint8)
        self._used = 0

    def take(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return an uninitialised array that is valid until the next clear()."""
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
        """Release all arrays."""
        self._used = 0
