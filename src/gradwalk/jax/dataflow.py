"""The dataflow of a Flax model: its layers are replaced by marks while JAX traces it, and the jaxpr is read."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

import jax
from jax.extend.core import Literal, Primitive

from gradwalk.chains import Node, Op
from gradwalk.jax.elementwise import POINTS, applied, identified, is_elementwise

_mark: Any = Primitive("gradwalk_mark")
_mark.def_abstract_eval(lambda x, *, name, shape: x.update(shape=shape))

Replacement = Callable[[Any, tuple[Any, ...], Callable[[], Any]], Any]

_WORDS = {"add": "a sum", "sub": "a sum", "mul": "a product", "dot_general": "a matrix product"}


class Signal(NamedTuple):
    """A value of the trace that depends on the input: the node it comes from, and an element-wise function of that.

    values: those of the function at the points, None where it is not known.
    """

    place: int
    values: Any = POINTS


def marked(x: Any, name: str, shape: tuple[int, ...]) -> Any:
    """Return what stands for the output of a layer, of this shape."""
    return _mark.bind(x, name=name, shape=shape)


@contextmanager
def layers_replaced(kinds: set[type], replace: Replacement) -> Iterator[None]:
    """Let `replace(layer, arguments, call)` compute what layers of these classes return; `call` is their own method."""

    def method(original: Any) -> Any:
        def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
            return replace(layer, args, lambda: original(layer, *args, **kwargs))

        return call

    with ExitStack() as stack:
        for kind in kinds:
            stack.enter_context(mock.patch.object(kind, "__call__", method(kind.__call__)))
        yield


class Reader:
    """Reads the nodes of a network from a jaxpr; `node_of` makes the nodes of a marked layer, by its name."""

    def __init__(self, node_of: Callable[[str, tuple[int, ...]], Node]) -> None:
        self.nodes: list[Node] = []
        self._node_of = node_of

    def read(self, closed: Any) -> list[int]:
        """Append the nodes of a jaxpr, and return those that it returns."""
        inputs = [Signal(self._append(Node(Op.INPUT))) for _ in closed.jaxpr.invars]
        results = self._run(closed.jaxpr, closed.consts, inputs)
        return [self._settled(result) for result in results if isinstance(result, Signal)]

    def _run(self, jaxpr: Any, consts: list[Any], arguments: list[Any]) -> list[Any]:
        known: dict[Any, Any] = dict(zip(jaxpr.invars, arguments, strict=True))
        scalars = [value if jax.numpy.ndim(value) == 0 else None for value in consts]
        known |= dict(zip(jaxpr.constvars, scalars, strict=True))

        def of(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else known[atom]

        for equation in _needed(jaxpr):
            results = self._equation(equation, [of(atom) for atom in equation.invars])
            known |= dict(zip(equation.outvars, results, strict=True))
        return [of(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: Any, operands: list[Any]) -> list[Any]:
        inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
        if inner is not None and equation.primitive.name in ("jit", "pjit", "closed_call", "custom_jvp_call", "remat"):
            return self._run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", []), operands)
        signals = [operand for operand in operands if isinstance(operand, Signal)]
        if not signals:
            value = applied(equation, operands) if len(equation.outvars) == 1 else None
            return [value] * len(equation.outvars)
        if len({signal.place for signal in signals}) == 1 and is_elementwise(equation):
            values = [operand.values if isinstance(operand, Signal) else operand for operand in operands]
            return [Signal(signals[0].place, applied(equation, values))]
        reads = tuple(dict.fromkeys(self._settled(signal) for signal in signals))
        return [Signal(self._append(self._node(equation, reads)))] * len(equation.outvars)

    def _node(self, equation: Any, reads: tuple[int, ...]) -> Node:
        name = equation.primitive.name
        if name == _mark.name:
            return self._node_of(equation.params["name"], reads)
        if name in ("reduce_max", "reduce_window_max"):
            return Node(Op.PASSING, reads, "max pooling", amount=None)
        if name in ("reduce_sum", "reduce_window_sum") and len(reads) == 1:
            return Node(Op.PASSING, reads, "pooling", amount=_log_sum_factor(equation))
        return Node(Op.UNKNOWN, reads, _WORDS.get(name, f"the operation {name}"))

    def _settled(self, signal: Signal) -> int:
        """Return the place of a signal, after a node for the function that is applied to its source."""
        if signal.values is POINTS:
            return signal.place
        function = identified(signal.values) if signal.values is not None else None
        if function is not None and function.activation is not None:
            return self._append(Node(Op.ACTIVATION, (signal.place,), function.activation.name, function.activation))
        if function is not None and function.factor:
            amount = math.log(abs(function.factor))
            return (
                self._append(Node(Op.PASSING, (signal.place,), "a factor", amount=amount)) if amount else signal.place
            )
        return self._append(Node(Op.UNKNOWN, (signal.place,), "a function that gradwalk does not know"))

    def _append(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1


def _needed(jaxpr: Any) -> list[Any]:
    """Return the equations that the results depend on: what marks replace is traced for its shape alone."""
    needed = {id(atom) for atom in jaxpr.outvars}
    kept = []
    for equation in reversed(jaxpr.eqns):
        if any(id(var) in needed for var in equation.outvars):
            kept.append(equation)
            needed |= {id(atom) for atom in equation.invars}
    return kept[::-1]


def _log_sum_factor(equation: Any) -> float | None:
    """Return ln of the factor on |delta| of a sum over k places, ln(k) / 2; None where the windows overlap."""
    if equation.primitive.name == "reduce_sum":
        return 0.5 * math.log(equation.invars[0].aval.size / equation.outvars[0].aval.size)
    window, strides = equation.params["window_dimensions"], equation.params["window_strides"]
    padded = any(any(pair) for pair in equation.params["padding"])
    return None if padded or tuple(window) != tuple(strides) else 0.5 * math.log(math.prod(window))
