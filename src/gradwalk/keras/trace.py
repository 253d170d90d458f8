"""The dataflow of a Keras model, read from the graph that functional and sequential models keep."""

import math
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import layers

from gradwalk.chains import Dataflow, Node, Op, WeightLayer
from gradwalk.keras.kernels import axes_of
from gradwalk.keras.roles import WEIGHT_LAYERS, is_attention, known_function, node_of, why_left_alone
from gradwalk.plans import LeftAlone


class Trace:
    """The nodes of a model, its weight layers by name, and the other layers with parameters."""

    def __init__(self, model: Any, where: str) -> None:
        if not isinstance(model, keras.Model):
            raise TypeError(f"{where}: model must be a keras.Model, got {type(model).__name__}")
        if not model.built:
            raise ValueError(
                f"{where}: {model.name} is not built and has no weights yet; begin with keras.Input or call it once"
            )
        self.nodes: list[Node] = []
        self.kernels: dict[str, Any] = {}
        self._runs: dict[str, int] = {}
        self._names: dict[int, str] = {}
        outputs = self._run(model, {}, "")
        self.dataflow = Dataflow(self.nodes, outputs)
        self.left_alone = tuple(self._find(model))

    @property
    def layers(self) -> list[WeightLayer]:
        """The weight layers, in the order of the forward pass where that is known."""
        return [self._weight_layer(name, layer) for name, layer in self.kernels.items()]

    def _run(self, model: Any, places: dict[int, int], prefix: str) -> list[int]:
        """Append the nodes of a model, whose inputs are known by the places of their tensors; return its outputs."""
        graph = graph_of(model)
        if graph is None:
            return []
        by_depth = graph._nodes_by_depth
        for node in (node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]):
            reads = tuple(places[id(tensor)] for tensor in node.input_tensors)
            if not node.input_tensors and id(node.outputs[0]) in places:
                continue  # an input of a model inside another
            for tensor, place in zip(node.outputs, self._places(node.operation, node, reads, prefix), strict=False):
                places[id(tensor)] = place
        return [places[id(tensor)] for tensor in keras.tree.flatten(graph.outputs)]

    def _places(self, operation: Any, node: Any, reads: tuple[int, ...], prefix: str) -> list[int]:
        """Append the nodes of one call, and return the places of its outputs."""
        if not node.input_tensors:
            return [self._append(Node(Op.INPUT, (), operation.name))]
        inner = graph_of(operation)
        if inner is not None:
            inputs = keras.tree.flatten(inner.inputs)
            known = {id(tensor): place for tensor, place in zip(inputs, reads, strict=True)}
            return self._run(operation, known, f"{prefix}{operation.name}/")
        if type(operation) in WEIGHT_LAYERS:
            return [self._weights(operation, reads, f"{prefix}{operation.name}")] * len(node.outputs)
        return [self._append(node_of(operation, reads))] * len(node.outputs)

    def _weights(self, layer: Any, reads: tuple[int, ...], name: str) -> int:
        """Append a weight layer and the activation that is part of it."""
        self.kernels[name], self._names[id(layer)] = layer, name
        self._runs[name] = self._runs.get(name, 0) + 1
        place = self._append(Node(Op.WEIGHTS, reads, name))
        f = known_function(layer.activation)
        if f is None:
            words = getattr(layer.activation, "__name__", "its activation")
            return self._append(Node(Op.UNKNOWN, (place,), f"{words} of {name}"))
        return self._append(Node(Op.ACTIVATION, (place,), f.name, f))

    def _append(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _find(self, model: Any) -> Iterator[LeftAlone]:
        """Yield the layers with parameters that are not weight layers; collect those whose calls cannot be read."""
        for layer in _inside(model):
            if id(layer) in self._names or not layer.built:
                continue
            if isinstance(layer, WEIGHT_LAYERS):
                self.kernels[layer.path] = layer
            elif layer.weights and (is_attention(layer) or not layer._layers):
                yield LeftAlone(layer.path, type(layer).__name__, why_left_alone(layer))

    def _weight_layer(self, name: str, layer: Any) -> WeightLayer:
        kernel = getattr(layer, "_kernel", None)  # with an adapter, `kernel` is a sum and no variable
        kernel = layer.kernel if kernel is None else kernel
        shape = tuple(kernel.shape)
        frozen = not (layer.trainable and kernel.trainable)
        padded = getattr(layer, "padding", "valid") != "valid" and math.prod(layer.kernel_size) > 1
        return WeightLayer(
            name,
            type(layer),
            shape,
            axes_of(layer, len(shape)).fan_in(shape),
            float(np.sqrt(np.mean(np.square(keras.ops.convert_to_numpy(kernel.value), dtype=np.float64)))),
            objection=self._objection(name, layer, frozen),
            fixed=frozen or bool(getattr(layer, "lora_enabled", False)),
            note="padding: not counted" * padded,
        )

    def _objection(self, name: str, layer: Any, frozen: bool) -> str:
        if getattr(layer, "lora_enabled", False):  # which freezes the kernel too
            return "it has an adapter (LoRA)"
        if frozen:
            return "frozen"
        if getattr(layer, "quantization_mode", None):
            return "its weights are quantised"
        if type(layer) not in WEIGHT_LAYERS:
            return "its class has a call of its own, which may compute other weights"
        return "it runs more than once" if self._runs.get(name, 0) > 1 else ""


def graph_of(operation: Any) -> Any:
    """Return the graph of a functional or sequential model, None for anything else."""
    if isinstance(operation, keras.Sequential):
        return operation._functional
    return operation if isinstance(operation, keras.Model) and hasattr(operation, "_nodes_by_depth") else None


def _inside(model: Any) -> Iterator[Any]:
    """Yield all layers of a model; those that are left alone as a whole, such as attention, without their own."""
    for layer in model._layers:
        yield layer
        if isinstance(layer, layers.Wrapper) or not is_attention(layer):
            yield from _inside(layer)
