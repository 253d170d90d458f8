"""Products of matrices by blocks, whose sums stay in registers."""

from collections.abc import Callable
from typing import TypeAlias

from gradwalk.compiled.matrices import Matrix, Size, at, compiled
from gradwalk.compiled.requests import Soon, Streams, planned, region, whole_rows
from gradwalk.compiled.vectors import LANES, ROWS, number, put, tile, transpose_block

_HALF = LANES // 2
_WIDEST = 6  # halves of a vector in a block
PANEL = _WIDEST * _HALF  # columns of a transposed piece of the weights
_TERMS = 160  # that are added up at a time: so many rows of a block stay in the first-level cache

Block: TypeAlias = Callable[[Matrix, Matrix, Matrix, Matrix, int, int, int, int], None]


def _block(rows: int, halves: int) -> Block:
    """Return the function that computes a block of so many rows and halves of a vector, see `tile`."""
    block = tile(rows, [LANES] * (halves // 2) + [_HALF] * (halves % 2))

    @compiled
    def compute(
        out: Matrix, start: Matrix, a: Matrix, b: Matrix, terms: int, last: int, soon: int, soon_step: int
    ) -> None:
        block(
            out.address,
            out.step,
            start.address,
            start.step,
            a.address,
            a.step,
            a.stride,
            b.address,
            b.step,
            terms,
            last,
            soon,
            soon_step,
        )

    return compute  # type: ignore[no-any-return]


def _of_any_width(rows: int) -> Callable[[int, Matrix, Matrix, Matrix, Matrix, int, int, int, int], None]:
    """Return the function that computes a block of so many rows, given its width in halves of a vector."""
    one, two, three, four, five, six = (_block(rows, halves) for halves in range(1, _WIDEST + 1))

    @compiled
    def compute(
        halves: int, out: Matrix, start: Matrix, a: Matrix, b: Matrix, terms: int, last: int, soon: int, soon_step: int
    ) -> None:
        if halves == 6:
            six(out, start, a, b, terms, last, soon, soon_step)
        elif halves == 5:
            five(out, start, a, b, terms, last, soon, soon_step)
        elif halves == 4:
            four(out, start, a, b, terms, last, soon, soon_step)
        elif halves == 3:
            three(out, start, a, b, terms, last, soon, soon_step)
        elif halves == 2:
            two(out, start, a, b, terms, last, soon, soon_step)
        else:
            one(out, start, a, b, terms, last, soon, soon_step)

    return compute  # type: ignore[no-any-return]


_rows_at_once, _half_of_them, _single_row = _of_any_width(ROWS), _of_any_width(ROWS // 2), _of_any_width(1)


@compiled
def _halves(columns: int) -> int:
    """Return how many halves of a vector the next blocks take of so many columns, so that none is much narrower."""
    left = -(-columns // _HALF)
    return 4 if left in (7, 8) else min(left, _WIDEST)


@compiled
def _width(columns: int) -> int:
    """Return how many of so many columns the next blocks take."""
    return min(_halves(columns) * _HALF, columns)  # type: ignore[no-any-return]


@compiled
def _parts(terms: int) -> int:
    """Return into how many parts so many terms are divided."""
    return -(-terms // _TERMS)


@compiled
def _column_of_blocks(
    out: Matrix, start: Matrix, a: Matrix, b: Matrix, size: Size, streams: Streams, count: int
) -> None:
    """Compute the blocks below each other, some terms at a time, so that their rows of b stay in the cache."""
    halves = _halves(size.columns)
    last = size.columns - (halves - 1) // 2 * LANES
    parts, place = _parts(size.terms), 0
    for part in range(parts):
        first = size.terms * part // parts
        terms = size.terms * (part + 1) // parts - first
        column, row = at(a, 0, first), at(b, first, 0)
        i = 0
        while i + ROWS <= size.rows:
            soon, step = (streams[place, 0], streams[place, 1]) if place < count else (b.address, 0)
            _rows_at_once(halves, at(out, i, 0), at(start, i, 0), at(column, i, 0), row, terms, last, soon, step)
            place += 1
            i += ROWS
        if i + ROWS // 2 <= size.rows:
            _half_of_them(halves, at(out, i, 0), at(start, i, 0), at(column, i, 0), row, terms, last, b.address, 0)
            i += ROWS // 2
        while i < size.rows:
            _single_row(halves, at(out, i, 0), at(start, i, 0), at(column, i, 0), row, terms, last, b.address, 0)
            i += 1
        start = out


@compiled
def product(out: Matrix, start: Matrix, a: Matrix, b: Matrix, size: Size, streams: Streams, soon: Soon) -> None:
    """Write start + a b: out and start (rows, columns), a (rows, terms), b (terms, columns)."""
    j, terms = 0, size.terms // _parts(size.terms)
    while j < size.columns:
        width = _width(size.columns - j)
        after = j + width
        following = _width(size.columns - after)
        second = region(at(b, 0, after), size.terms, following)
        written = region(at(out, 0, after), size.rows, following)
        count = planned(streams, second, written, soon, j, after, size.columns, terms)
        own = Size(size.rows, size.terms, width)
        _column_of_blocks(at(out, 0, j), at(start, 0, j), a, at(b, 0, j), own, streams, count)
        j = after


@compiled
def product_with_transpose(
    out: Matrix, a: Matrix, b: Matrix, size: Size, scratch: int, streams: Streams, soon: Soon
) -> None:
    """Write a b^T: out (rows, columns), a (rows, terms), b (columns, terms); scratch: memory for terms * PANEL."""
    zeros, piece = Matrix(0, 0, 0), Matrix(scratch, PANEL, 1)
    j, terms = 0, size.terms // _parts(size.terms)
    while j < size.columns:
        width = _width(size.columns - j)
        after = j + width
        following = _width(size.columns - after)
        second = whole_rows(at(b, after, 0), following)
        written = region(at(out, 0, after), size.rows, following)
        count = planned(streams, second, written, soon, j, after, size.columns, terms)
        own = Size(size.rows, size.terms, width)
        _transpose(piece, at(b, j, 0), width, size.terms)
        _column_of_blocks(at(out, 0, j), zeros, a, piece, own, streams, count)
        j = after


@compiled
def _transpose(out: Matrix, a: Matrix, rows: int, columns: int) -> None:
    """Write the transpose of a (rows, columns)."""
    for i in range(0, rows, LANES):
        for j in range(0, columns, LANES):
            square, turned = at(a, i, j), at(out, j, i)
            if i + LANES <= rows and j + LANES <= columns:
                transpose_block(turned.address, turned.step, square.address, square.step)
            else:
                for row in range(min(LANES, rows - i)):
                    for column in range(min(LANES, columns - j)):
                        place = column * turned.step + row
                        put(turned.address, place, number(square.address, row * square.step + column))
