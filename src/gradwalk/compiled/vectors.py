"""Blocks of a matrix product, written in LLVM's vector instructions, as intrinsics for Numba.

Every number of a product is one sum in the order of its terms, by fused multiply-add: its bits depend neither on the
block in which it is computed nor on how many lanes a vector has.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

_FEATURES = (config.CPU_FEATURES or "" if config.CPU_NAME else get_host_cpu_features()).split(",")
SERVES = {"+avx2", "+fma"} <= set(_FEATURES)  # whether this processor has what the products are written for
LANES, ROWS = (16, 8) if "+avx512f" in _FEATURES else (8, 4)  # of a vector; of a block, whose sums stay in registers

_FLOAT, _WORD, _INDEX = ir.FloatType(), ir.IntType(64), ir.IntType(32)
_NUMBERS = _FLOAT.as_pointer()


def tile(rows: int, pieces: Sequence[int]) -> Callable[..., None]:
    """Return the intrinsic that computes a block of a product, `rows` high and `sum(pieces)` wide.

    out[i, j] = start[i, j] + sum over k of a[i, k] b[k, j]. out, start, a, b: addresses; start may be 0. The steps are
    numbers from one row of out, of start and of a, from one column of a, and from one row of b to the next. last: how
    many numbers of the last piece, a vector of so many lanes as it says, are there. soon: an address, of memory or not,
    whose cache line is asked for; soon_step bytes further on for the next k.
    """

    @intrinsic
    def block(
        typing: Any,
        out: Any,
        out_step: Any,
        start: Any,
        start_step: Any,
        a: Any,
        a_step: Any,
        a_stride: Any,
        b: Any,
        b_step: Any,
        terms: Any,
        last: Any,
        soon: Any,
        soon_step: Any,
    ) -> Any:
        signature = types.void(*[types.intp] * 13)

        def generate(context: Any, builder: ir.IRBuilder, _: Any, arguments: Sequence[ir.Value]) -> ir.Value:
            _Tile(builder, rows, pieces, _Operands(*arguments)).write()
            return context.get_dummy_value()

        return signature, generate

    return block  # type: ignore[no-any-return]


class _Operands(NamedTuple):
    """The arguments of a block, see `tile`."""

    out: ir.Value
    out_step: ir.Value
    start: ir.Value
    start_step: ir.Value
    a: ir.Value
    a_step: ir.Value
    a_stride: ir.Value
    b: ir.Value
    b_step: ir.Value
    terms: ir.Value
    last: ir.Value
    soon: ir.Value
    soon_step: ir.Value


class _Tile:
    """Writes the instructions of a block."""

    def __init__(self, builder: ir.IRBuilder, rows: int, pieces: Sequence[int], operands: _Operands) -> None:
        self.builder, self.rows, self.operands = builder, rows, operands
        self.vectors = [ir.VectorType(_FLOAT, lanes) for lanes in pieces]
        self.places = [_WORD(sum(pieces[:number])) for number in range(len(pieces))]
        numbers = ir.Constant(ir.VectorType(_WORD, pieces[-1]), list(range(pieces[-1])))
        self.mask = builder.icmp_signed("<", numbers, _spread(builder, operands.last, pieces[-1]))

    def write(self) -> None:
        """Write them at the end of the builder's block."""
        builder, given = self.builder, self.operands
        first = self._first(given.start, given.start_step)
        first_column, first_row = builder.inttoptr(given.a, _NUMBERS), builder.inttoptr(given.b, _NUMBERS)
        before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
        builder.branch(loop)
        builder.position_at_end(loop)
        count, column, row = builder.phi(_WORD), builder.phi(_NUMBERS), builder.phi(_NUMBERS)
        line = builder.phi(_WORD)
        sums = [[builder.phi(vector) for vector in self.vectors] for _ in range(self.rows)]
        self._prefetch(line)
        factors = self._load(row)
        more = []
        for i, row_sums in enumerate(sums):
            number = builder.load(builder.gep(column, [builder.mul(given.a_step, _WORD(i))]))
            more.append([self._added(number, *each) for each in zip(factors, row_sums, strict=True)])
        again = builder.add(count, _WORD(1))
        for phi, initial, then in [
            (count, _WORD(0), again),
            (line, given.soon, builder.add(line, given.soon_step)),
            (column, first_column, builder.gep(column, [given.a_stride])),
            (row, first_row, builder.gep(row, [given.b_step])),
            *(
                each
                for old, begin, new in zip(sums, first, more, strict=True)
                for each in zip(old, begin, new, strict=True)
            ),
        ]:
            phi.add_incoming(initial, before)
            phi.add_incoming(then, loop)
        builder.cbranch(builder.icmp_signed("<", again, given.terms), loop, after)
        builder.position_at_end(after)
        target = builder.inttoptr(given.out, _NUMBERS)
        for i, values in enumerate(more):
            self._store(builder.gep(target, [builder.mul(given.out_step, _WORD(i))]), values)

    def _first(self, start: ir.Value, start_step: ir.Value) -> list[list[ir.Value]]:
        """Return what the sums begin with: zeros where there is no address."""
        builder = self.builder
        zeros = [ir.Constant(vector, [0.0] * vector.count) for vector in self.vectors]
        with builder.if_else(builder.icmp_signed("!=", start, _WORD(0))) as (then, otherwise):
            with then:
                places = builder.inttoptr(start, _NUMBERS)
                rows = [builder.gep(places, [builder.mul(start_step, _WORD(i))]) for i in range(self.rows)]
                loaded, there = [self._load(row) for row in rows], builder.block
            with otherwise:
                elsewhere = builder.block
        first = [[builder.phi(vector) for vector in self.vectors] for _ in range(self.rows)]
        for phis, values in zip(first, loaded, strict=True):
            for phi, value, zero in zip(phis, values, zeros, strict=True):
                phi.add_incoming(value, there)
                phi.add_incoming(zero, elsewhere)
        return first

    def _prefetch(self, address: ir.Value) -> None:
        """Ask for a cache line, for reading."""
        byte = ir.IntType(8).as_pointer()
        function = ir.FunctionType(ir.VoidType(), [byte, *[_INDEX] * 3])
        call = cgutils.get_or_insert_function(self.builder.module, function, "llvm.prefetch.p0")
        self.builder.call(call, [self.builder.inttoptr(address, byte), _INDEX(0), _INDEX(3), _INDEX(1)])

    def _load(self, address: ir.Value) -> list[ir.Value]:
        places = self._places(address)
        values = [self.builder.load(place, align=4) for place in places[:-1]]
        vector = self.vectors[-1]
        zero = ir.Constant(vector, [0.0] * vector.count)
        call = self._call("masked.load", vector, vector.as_pointer(), _INDEX, self.mask.type, vector)
        return [*values, self.builder.call(call, [places[-1], _INDEX(4), self.mask, zero])]

    def _store(self, address: ir.Value, values: Sequence[ir.Value]) -> None:
        places = self._places(address)
        for value, place in zip(values[:-1], places[:-1], strict=True):
            self.builder.store(value, place, align=4)
        last, place = values[-1], places[-1]
        call = self._call("masked.store", ir.VoidType(), last.type, place.type, _INDEX, self.mask.type, of=last.type)
        self.builder.call(call, [last, place, _INDEX(4), self.mask])

    def _places(self, address: ir.Value) -> list[ir.Value]:
        return [
            self.builder.bitcast(self.builder.gep(address, [place]), vector.as_pointer())
            for place, vector in zip(self.places, self.vectors, strict=True)
        ]

    def _added(self, number: ir.Value, factor: ir.Value, before: ir.Value) -> ir.Value:
        vector = factor.type
        call = self._call("fma", vector, vector, vector, vector)
        return self.builder.call(call, [_spread(self.builder, number, vector.count), factor, before])

    def _call(self, name: str, result: ir.Type, *arguments: ir.Type, of: ir.VectorType | None = None) -> ir.Function:
        lanes = (of or result).count
        full = f"llvm.{name}.v{lanes}f32" + (".p0" if name.startswith("masked") else "")
        return cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(result, arguments), full)


def _spread(builder: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """Return a vector all of whose lanes are `value`."""
    vector = ir.VectorType(value.type, lanes)
    undefined = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(undefined, value, _INDEX(0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_INDEX, lanes), [0] * lanes))


@intrinsic
def transpose_block(typing: Any, out: Any, out_step: Any, a: Any, a_step: Any) -> Any:
    """Write the transpose of a square of LANES rows of a to out; the steps are from one row to the next."""
    signature = types.void(*[types.intp] * 4)

    def generate(context: Any, builder: ir.IRBuilder, _: Any, arguments: Sequence[ir.Value]) -> ir.Value:
        out, out_step, a, a_step = arguments
        rows = [builder.load(place, align=4) for place in _rows(builder, a, a_step)]
        distance = LANES // 2
        while distance:  # numbers that are so far apart change places, in all squares of twice that size
            for i in (i for i in range(LANES) if not i & distance):
                upper, lower = rows[i], rows[i + distance]
                for place, far, near in ((i, LANES - distance, 0), (i + distance, LANES, distance)):
                    chosen = [j + far if j & distance else j + near for j in range(LANES)]
                    order = ir.Constant(ir.VectorType(_INDEX, LANES), chosen)
                    rows[place] = builder.shuffle_vector(upper, lower, order)
            distance //= 2
        for row, place in zip(rows, _rows(builder, out, out_step), strict=True):
            builder.store(row, place, align=4)
        return context.get_dummy_value()

    return signature, generate


def _rows(builder: ir.IRBuilder, address: ir.Value, step: ir.Value) -> list[ir.Value]:
    numbers, vector = builder.inttoptr(address, _NUMBERS), ir.VectorType(_FLOAT, LANES).as_pointer()
    return [builder.bitcast(builder.gep(numbers, [builder.mul(step, _WORD(i))]), vector) for i in range(LANES)]


@intrinsic
def number(typing: Any, address: Any, place: Any) -> Any:
    """Return the number at a place after an address."""

    def generate(context: Any, builder: ir.IRBuilder, _: Any, arguments: Sequence[ir.Value]) -> ir.Value:
        return builder.load(builder.gep(builder.inttoptr(arguments[0], _NUMBERS), [arguments[1]]))

    return types.float32(types.intp, types.intp), generate


@intrinsic
def put(typing: Any, address: Any, place: Any, value: Any) -> Any:
    """Write a number to a place after an address."""

    def generate(context: Any, builder: ir.IRBuilder, _: Any, arguments: Sequence[ir.Value]) -> ir.Value:
        builder.store(arguments[2], builder.gep(builder.inttoptr(arguments[0], _NUMBERS), [arguments[1]]))
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.float32), generate


@intrinsic
def from_bits(typing: Any, bits: Any) -> Any:
    """Return the number with these bits."""

    def generate(context: Any, builder: ir.IRBuilder, _: Any, arguments: Sequence[ir.Value]) -> ir.Value:
        return builder.bitcast(builder.trunc(arguments[0], _INDEX), _FLOAT)

    return types.float32(types.intp), generate


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a b + c, rounded once."""

    def generate(context: Any, builder: ir.IRBuilder, _: Any, arguments: Sequence[ir.Value]) -> ir.Value:
        function = ir.FunctionType(_FLOAT, [_FLOAT] * 3)
        return builder.call(cgutils.get_or_insert_function(builder.module, function, "llvm.fma.f32"), arguments)

    return types.float32(*[types.float32] * 3), generate


@intrinsic
def sum_of_squares(typing: Any, address: Any, blocks: Any) -> Any:
    """Return the sum of the squares of so many blocks of 64 numbers, at least one, in double precision.

    The order of the sum is the same on every processor: four vectors of 16 lanes.
    """
    lanes, vectors = 16, 4
    narrow, wide = ir.VectorType(_FLOAT, lanes), ir.VectorType(ir.DoubleType(), lanes)

    def generate(context: Any, builder: ir.IRBuilder, _: Any, arguments: Sequence[ir.Value]) -> ir.Value:
        numbers, before = builder.inttoptr(arguments[0], narrow.as_pointer()), builder.block
        loop, after = builder.append_basic_block(), builder.append_basic_block()
        builder.branch(loop)
        builder.position_at_end(loop)
        count, totals = builder.phi(_WORD), [builder.phi(wide) for _ in range(vectors)]
        more = []
        for place, total in enumerate(totals):
            block = builder.add(builder.mul(count, _WORD(vectors)), _WORD(place))
            value = builder.fpext(builder.load(builder.gep(numbers, [block]), align=4), wide)
            more.append(builder.fadd(total, builder.fmul(value, value)))
        again = builder.add(count, _WORD(1))
        zeros = [_WORD(0), *[ir.Constant(wide, [0.0] * lanes)] * vectors]
        for phi, first, then in zip([count, *totals], zeros, [again, *more], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(then, loop)
        builder.cbranch(builder.icmp_signed("<", again, arguments[1]), loop, after)
        builder.position_at_end(after)
        summed = builder.fadd(builder.fadd(more[0], more[1]), builder.fadd(more[2], more[3]))
        result = builder.extract_element(summed, _INDEX(0))
        for lane in range(1, lanes):
            result = builder.fadd(result, builder.extract_element(summed, _INDEX(lane)))
        return result

    return types.float64(types.intp, types.intp), generate
