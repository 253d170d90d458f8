"""The layers and the dataflow of a Flax model: an nnx module, or a linen module with its variables."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen, nnx

from gradwalk.chains import Dataflow, WeightLayer
from gradwalk.jax.dataflow import Reader, layers_replaced, marked
from gradwalk.jax.flax_layers import (
    Kernel,
    Layer,
    is_attention,
    is_known,
    is_weight_layer,
    kernel_of,
    node_of,
    output_shape,
    why_left_alone,
)
from gradwalk.plans import LeftAlone

Arguments = tuple[Any, ...]


class Parameters(NamedTuple):
    """A weight layer with its kernel and bias: arrays of linen, variables of nnx."""

    layer: Layer
    kernel: Any
    bias: Any

    @property
    def layout(self) -> Kernel:
        """How the kernel is laid out."""
        return kernel_of(self.layer, tuple(self.kernel.shape))


class Trace(NamedTuple):
    """The dataflow of a model, its weight layers by name, how often each runs, and the other modules."""

    dataflow: Dataflow
    parameters: dict[str, Parameters]
    runs: dict[str, int]
    left_alone: tuple[LeftAlone, ...]

    @property
    def layers(self) -> list[WeightLayer]:
        """The weight layers, in the order of the forward pass where that is known."""
        order = {name: place for place, name in enumerate(self.dataflow.places)}
        names = sorted(self.parameters, key=lambda name: order.get(name, len(order)))
        return [self._weight_layer(name) for name in names]

    def _weight_layer(self, name: str) -> WeightLayer:
        layer, kernel, _ = each = self.parameters[name]
        layout, shape = each.layout, tuple(kernel.shape)
        frozen = isinstance(kernel, nnx.Variable) and not isinstance(kernel, nnx.Param)
        twins = sum(other.kernel is kernel for other in self.parameters.values())
        tied = "it runs more than once" if self.runs.get(name, 0) > 1 else "its weights are shared" * (twins > 1)
        std = math.sqrt(float(jnp.mean(jnp.square(jnp.asarray(kernel, jnp.float32)))))
        objection = "frozen" if frozen else tied
        return WeightLayer(name, type(layer), shape, layout.axes.fan_in(shape), std, objection, frozen, layout.note)


def traced_nnx(model: nnx.Module, arguments: Arguments, where: str) -> Trace:
    """Return what an nnx module does with these arguments."""
    modules: dict[str, Any] = {".".join(map(str, path)): module for path, module in nnx.iter_modules(model)}
    names = {id(module): name for name, module in modules.items()}

    def replace(layer: Layer, args: Arguments, call: Callable[[], Any]) -> Any:
        return _mark(layer, names[id(layer)], args, call) if id(layer) in names else call()

    kinds = {type(module) for module in modules.values() if is_known(module)}
    with layers_replaced(kinds, replace):
        jaxpr = _jaxpr(partial(_call, model), arguments, where)
    inside = [name for name, module in modules.items() if is_attention(module)]
    own = {name: module for name, module in modules.items() if not any(name.startswith(f"{a}.") for a in inside)}
    parameters = {
        name: Parameters(module, module.kernel, getattr(module, "bias", None))
        for name, module in own.items()
        if is_weight_layer(module)
    }
    others = [(name, module) for name, module in own.items() if name not in parameters and _has_parameters(module)]
    return _trace(jaxpr, modules, parameters, others)


def traced_linen(module: linen.Module, variables: Mapping[str, Any], arguments: Arguments, where: str) -> Trace:
    """Return what a linen module does with these variables and arguments."""
    modules: dict[str, Layer] = {}

    def intercept(call: Callable[..., Any], args: Arguments, kwargs: Mapping[str, Any], context: Any) -> Any:
        layer, name = context.module, "/".join(context.module.path)
        if context.method_name != "__call__" or not is_known(layer):
            return call(*args, **kwargs)
        modules[name] = layer
        return _mark(layer, name, args, lambda: call(*args, **kwargs))

    with linen.intercept_methods(intercept):
        jaxpr = _jaxpr(lambda *args: module.apply(variables, *args), arguments, where)
    parameters = {
        name: Parameters(layer, leaf["kernel"], leaf.get("bias"))
        for name, layer in modules.items()
        if is_weight_layer(layer) and (leaf := _leaf(variables, name)) is not None
    }
    others = [(name, layer) for name, layer in modules.items() if name not in parameters and _leaf(variables, name)]
    return _trace(jaxpr, modules, parameters, others)


def _call(model: Any, *args: Any) -> Any:
    return model(*args)


def _jaxpr(function: Callable[..., Any], arguments: Arguments, where: str) -> Any:
    try:
        return jax.make_jaxpr(function)(*arguments)
    except Exception as error:
        raise ValueError(f"{where}: the model does not run on the example: {error}".splitlines()[0]) from error


def _mark(layer: Layer, name: str, args: Arguments, call: Callable[[], Any]) -> Any:
    """Return what stands for the output of a layer; those that are run return its shape, or the signal itself."""
    shape = output_shape(layer, args[0])
    if shape is not None:
        return marked(args[0], name, shape)
    output = call()
    return marked(args[0] if is_weight_layer(layer) else output, name, tuple(output.shape))


def _trace(
    jaxpr: Any, modules: Mapping[str, Layer], parameters: dict[str, Parameters], others: list[tuple[str, Layer]]
) -> Trace:
    reader = Reader(lambda name, reads: node_of(modules[name], name, reads))
    outputs = reader.read(jaxpr)
    runs: dict[str, int] = {}
    for node in reader.nodes:
        runs[node.label] = runs.get(node.label, 0) + (node.label in parameters)
    left = tuple(LeftAlone(name, type(module).__name__, why_left_alone(module)) for name, module in others)
    return Trace(Dataflow(reader.nodes, outputs), parameters, runs, left)


def _has_parameters(module: nnx.Module) -> bool:
    return is_attention(module) or any(isinstance(value, nnx.Param) for value in vars(module).values())


def _leaf(variables: Mapping[str, Any], name: str) -> Any:
    """Return the parameters of a linen module by its path, None if it has none."""
    leaf: Any = variables.get("params", {})
    for key in name.split("/"):
        leaf = leaf.get(key) if isinstance(leaf, Mapping) else None
    return leaf
