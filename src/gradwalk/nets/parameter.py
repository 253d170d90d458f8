"""What an optimizer updates: a tensor of parameters, with its gradient and the memory of its update."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Parameter:
    """A tensor of parameters of all networks, and the memory of its update.

    The first axis are the matrices of weights of one layer or of several of the same shape, one per network and layer,
    or the vectors of all biases, one per network. gradient: clipped, and with the L2 term of weight decay added; the
    update may overwrite it. rate: learning rates, broadcastable to `value`. slots: the optimizer's state, in the order
    of its `slots`, zero at first. scratch: memory in the shape of `value` whose content is undefined; None where
    `Optimizer.linear` is set.
    """

    value: torch.Tensor
    gradient: torch.Tensor
    rate: torch.Tensor
    slots: tuple[torch.Tensor, ...]
    scratch: torch.Tensor | None

    def product(self, a: torch.Tensor, b: torch.Tensor | float) -> torch.Tensor:
        """Return a b, in the scratch memory."""
        return torch.mul(a, b, out=self.scratch)

    def ratio(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return a / b, in the scratch memory."""
        return torch.div(a, b, out=self.scratch)

    def root(self, a: torch.Tensor) -> torch.Tensor:
        """Return the square root of a, in the scratch memory."""
        return torch.sqrt(a, out=self.scratch)
