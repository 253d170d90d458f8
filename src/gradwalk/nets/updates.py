"""The updates of a stack: its optimizer with its state, clipping and weight decay."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise

import torch

from gradwalk.nets.footprint import update_groups
from gradwalk.nets.memory import aligned, aligned_weights, joined
from gradwalk.nets.optimizers import Optimizer
from gradwalk.nets.parameter import Parameter
from gradwalk.nets.stack import Stack, Tensors

Slots = dict[str, Tensors]  # of one network: per name the tensors of all weights, input first, then of all biases
Bound = Tensors  # value, gradient, rate and slots of a parameter

PART_NUMBERS = 20_000  # that a parameter must have on average for several threads: with fewer they wait for each other


class Updater:
    """Updates the parameters of a stack from the gradients that the stack leaves behind.

    weight_decay, bias_rate: per network; the learning rate of the biases is `bias_rate` times that of the weights.
    Like torch.optim after `clip_grad_norm_`: clipping comes first, then weight decay of weights and biases alike.
    """

    def __init__(
        self, stack: Stack, optimizer: Optimizer, weight_decay: Sequence[float], bias_rate: Sequence[float]
    ) -> None:
        like = stack.weights[0]
        self.stack, self.optimizer = stack, optimizer
        self._decay = like.new_tensor(weight_decay) if any(weight_decay) else None
        self._bias_rate = like.new_tensor(bias_rate)
        self._slots = [self._new_slot() for _ in optimizer.slots]
        self._bind()

    def update(self, rates: torch.Tensor, step: int, shorten: torch.Tensor | None = None) -> None:
        """Take one step: `rates` (layers, networks), `step` counts from 1, `shorten` (networks,) scales the gradients.

        The gradients of the stack are overwritten where they are clipped or decayed.
        """
        if shorten is not None and not self.optimizer.linear:
            self._each(partial(_clip, shorten=shorten))
        if self._decay is not None:
            self._set_rates(rates)
            self._each(partial(_apply_decay, decay=self._decay, decoupled=self.optimizer.decoupled))
        self._set_rates(rates * shorten if shorten is not None and self.optimizer.linear else rates)
        self._each(partial(self.optimizer.update, step=step))

    def keep(self, networks: Sequence[int]) -> None:
        """Keep these networks, in the stack and in the optimizer's state."""
        self.stack.keep(networks)
        chosen = torch.tensor(networks, device=self._bias_rate.device)
        self._decay = None if self._decay is None else self._decay[chosen]
        self._bias_rate = self._bias_rate[chosen]
        before, self._slots = self._slots, [self._new_slot() for _ in self._slots]
        for slot, old in zip(chain(*self._slots), chain(*before), strict=True):
            slot.copy_(old[chosen])
        self._bind()

    def slots(self, network: int) -> Slots:
        """Return the optimizer's state of one network, as views."""
        units = self.stack.units.tolist()
        return {
            name: [*(slot[network] for slot in weights), *torch.split(biases[network], units)]
            for name, (*weights, biases) in zip(self.optimizer.slots, self._slots, strict=True)
        }

    def load(self, network: int, slots: Mapping[str, Tensors]) -> None:
        """Take over the state of one network from `slots`, as another Updater gave it; it is zero without."""
        if slots and set(slots) != set(self.optimizer.slots):
            raise ValueError(
                f"checkpoint: the state of {self.optimizer} must hold {', '.join(self.optimizer.slots) or 'nothing'}, "
                f"got {', '.join(slots)}; remove the checkpoint to start again"
            )
        views = self.slots(network)
        for name, tensors in slots.items():
            for view, tensor in zip(views[name], tensors, strict=True):
                view.copy_(tensor)

    def _each(self, change: Callable[[Parameter], None]) -> None:
        """Apply a change to every parameter, a part of them in each thread."""
        self.stack.crew.share([[partial(change, parameter) for parameter in part] for part in self._parts])

    def _set_rates(self, rates: torch.Tensor) -> None:
        self._rates.copy_(rates[:, :, None, None])
        self._bias_rates.copy_((rates * self._bias_rate).repeat_interleave(self.stack.units, dim=0).T)

    def _new_slot(self) -> Tensors:
        """Return a zero per parameter, as tensors of the weights of each layer and of all biases."""
        biases = self.stack.flat_biases
        tensors = [*aligned_weights(biases, self.stack.count, self.stack.widths), aligned(biases, *biases.shape)]
        return [tensor.zero_() for tensor in tensors]

    def _bind(self) -> None:
        """Put together, once for all steps, the memory that each parameter's update works on."""
        stack = self.stack
        self._rates = stack.weights[0].new_empty(len(stack.weights), stack.count, 1, 1)
        self._bias_rates = torch.empty_like(stack.flat_biases)
        weights = [stack.weights, stack.weight_gradients, list(self._rates), *(slot[:-1] for slot in self._slots)]
        biases = [stack.flat_biases, stack.flat_bias_gradients, self._bias_rates, *(slot[-1] for slot in self._slots)]
        groups = update_groups(stack.widths, stack.count)
        bound = [[_matrices(each[group.start : group.stop]) for each in weights] for group in groups] + [biases]
        shared = sum(value.numel() for value, *_ in bound) >= PART_NUMBERS * len(bound)
        self._parts = [self._bound(part) for part in _evenly(bound, stack.crew.threads if shared else 1)]

    def _bound(self, part: Sequence[Bound]) -> list[Parameter]:
        """Return the parameters of one thread, which share their scratch memory."""
        largest = max(value.numel() for value, *_ in part)
        scratch = None if self.optimizer.linear else part[0][0].new_empty(largest)
        return [
            Parameter(value, gradient, rate, tuple(slots), None if scratch is None else _shaped(scratch, value))
            for value, gradient, rate, *slots in part
        ]


def _clip(parameter: Parameter, shorten: torch.Tensor) -> None:
    parameter.gradient.mul_(_by_network(shorten, parameter))


def _apply_decay(parameter: Parameter, decay: torch.Tensor, decoupled: bool) -> None:
    """Shrink the parameter, or add decay * value to its gradient; for a linear update both are the same step."""
    own = _by_network(decay, parameter)
    if parameter.scratch is None or decoupled:
        parameter.value.mul_(1 - parameter.rate * own)
    else:
        parameter.gradient.add_(torch.mul(parameter.value, own, out=parameter.scratch))


def _by_network(values: torch.Tensor, parameter: Parameter) -> torch.Tensor:
    """Return one value per network in a shape that is broadcastable to the parameter."""
    layers = len(parameter.value) // len(values)
    return values.repeat(layers).view(-1, *[1] * (parameter.value.ndim - 1))


def _matrices(layers: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return layers (networks, ...) of one shape, which lie in memory at equal distances, along one axis."""
    whole = joined(layers)
    return whole.view(-1, *whole.shape[2:])


def _evenly(bound: Sequence[Bound], parts: int) -> list[Sequence[Bound]]:
    """Return the parameters in order, in at most that many parts of about as many numbers each."""
    ends = list(accumulate(value.numel() for value, *_ in bound))
    places = [bisect_left(ends, ends[-1] * part / parts) for part in range(parts)]
    return [bound[start:stop] for start, stop in pairwise([*places, len(bound)]) if start < stop]


def _shaped(scratch: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return the part of the scratch memory that has the shape of `value`."""
    return scratch[: value.numel()].view(value.shape)
