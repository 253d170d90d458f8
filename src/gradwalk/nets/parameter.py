"""What an optimizer updates: one tensor of parameters, with its gradient and the memory of its update."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Parameter:
    """One tensor of parameters of all networks, and the memory of its update: the networks are the first axis.

    gradient: clipped, and with the L2 term of weight decay added; the update may overwrite it. rate: learning rates,
    broadcastable to `value`. slots: the optimizer's state, in the order of its `slots`, zero at first. scratch: memory
    in the shape of `value` whose content is undefined; None where `Optimizer.linear` is set.
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
