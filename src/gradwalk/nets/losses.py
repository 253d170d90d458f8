"""The losses of a stack: cross entropy for classification, mean squared error for reconstruction.

Both are means over the examples of a minibatch, as torch defines them, with one value per network.
"""

from typing import Protocol

import torch


class Loss(Protocol):
    """A loss of outputs (networks, rows, out) against the targets (rows, ...) that all networks share."""

    def with_gradient(self, outputs: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean loss of each network and its gradient with respect to the outputs."""
        ...

    def sums(self, outputs: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss summed over the rows and the number of mistakes, per network and in double precision."""
        ...


class CrossEntropy:
    """Minus the log-probability of the true class; target: class numbers (rows,)."""

    def with_gradient(self, outputs: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean loss of each network and its gradient, (softmax - one hot) / rows."""
        logs = torch.log_softmax(outputs, 2)
        index = target.view(1, -1, 1).expand(len(outputs), -1, 1)
        loss = -logs.gather(2, index).mean((1, 2))
        delta = logs.exp_()
        delta.scatter_add_(2, index, delta.new_full((), -1.0).expand(index.shape))
        return loss, delta.div_(len(target))

    def sums(self, outputs: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the summed loss and the number of examples whose largest output is not that of their class."""
        index = target.view(1, -1, 1).expand(len(outputs), -1, 1)
        loss = -torch.log_softmax(outputs, 2).gather(2, index).sum((1, 2), dtype=torch.float64)
        return loss, (outputs.argmax(2) != target).sum(1).double()


class SquaredError:
    """The squared error, averaged over the units of an example; target: (rows, out)."""

    def with_gradient(self, outputs: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean loss of each network and its gradient, 2 (output - target) / (rows * out)."""
        delta = outputs - target
        loss = delta.square().mean((1, 2))
        return loss, delta.mul_(2 / target.numel())

    def sums(self, outputs: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the summed loss, and 0 for the mistakes, which a reconstruction does not have."""
        loss = (outputs - target).square().mean(2).sum(1, dtype=torch.float64)
        return loss, torch.zeros_like(loss)
