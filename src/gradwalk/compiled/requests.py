"""What a product asks for in advance, so that it has come from memory when the next one uses it.

Memory takes a few requests at a time. So each block of a product takes one stream of addresses, and asks for one cache
line of it per term. The streams of a column of blocks are planned before it.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradwalk.compiled.matrices import BYTES, LINE, Matrix, compiled

STREAMS = 64  # of a column of blocks at most; what is more is not asked for

Streams: TypeAlias = NDArray[np.int64]  # per stream its first address and the bytes from one to the next


class Region(NamedTuple):
    """Memory: rows of `width` bytes, the first ones of which lie `step` bytes apart."""

    address: int
    step: int
    rows: int
    width: int


class Soon(NamedTuple):
    """What is used soon: by the next product, of which a large matrix counts up to its first column of blocks.

    second, out: the second factor, and what is written. more: what is read besides, by it or before. panels_of_second,
    panels_of_out: whether the own ones are that large, so that each column of blocks asks for the part of the next one.
    """

    second: Region
    out: Region
    more: Region
    panels_of_second: bool
    panels_of_out: bool


@compiled
def region(matrix: Matrix, rows: int, columns: int) -> Region:
    """Return the memory of so many rows and columns of a matrix."""
    return Region(matrix.address, BYTES * matrix.step, rows, BYTES * columns)


@compiled
def whole_rows(matrix: Matrix, rows: int) -> Region:
    """Return the memory from a matrix's first number to its last in so many rows, as rows of one cache line."""
    return Region(matrix.address, LINE, BYTES * rows * matrix.step // LINE + 1, BYTES)


@compiled
def planned(
    streams: Streams, second: Region, out: Region, soon: Soon, first: int, after: int, columns: int, terms: int
) -> int:
    """Write the streams of a column of blocks and return their number.

    second, out: of the next column of blocks. first, after: the columns of the product that this one has, of so many.
    terms: of a block.
    """
    count = 0
    if after < columns and soon.panels_of_second:
        count = _with_region(streams, count, second, terms)
    if after < columns and soon.panels_of_out:
        count = _with_region(streams, count, out, terms)
    count = _with_region(streams, count, _share(soon.second, first, after, columns), terms)
    count = _with_region(streams, count, _share(soon.out, first, after, columns), terms)
    return _with_region(streams, count, _share(soon.more, first, after, columns), terms)  # type: ignore[no-any-return]


@compiled
def _share(region: Region, first: int, after: int, columns: int) -> Region:
    """Return the part of the rows that belongs to some of the columns."""
    begin, end = region.rows * first // columns, region.rows * after // columns
    return Region(region.address + begin * region.step, region.step, end - begin, region.width)


@compiled
def _with_region(streams: Streams, count: int, region: Region, terms: int) -> int:
    """Add the streams of a region, each along one cache line of so many rows, and return their number."""
    for line in range((region.width - 2 * BYTES) // LINE + 2):
        first = region.address + min(line * LINE, region.width - BYTES)
        for row in range(0, region.rows, terms):
            if count < len(streams):
                streams[count, 0], streams[count, 1] = first + row * region.step, region.step
                count += 1
    return count
