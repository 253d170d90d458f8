"""Chains of dense layers, batches for them, and their walks by autograd alone."""

import torch
from torch import nn

from helpers.torch_models import generator, scaled_mlp


def chain(act, gain, depth=30, width=50, **options):
    """Return an MLP with weights of that gain, the first layer's at gain 1, without biases."""
    return scaled_mlp([width] * (depth + 1), act, gain, first_gain=1.0, bias=False, **options)


def batch(count, width=50, seed=1, dtype=torch.float32):
    """Return inputs and a loss whose gradient at the output is random."""
    draw = generator(seed)
    x, direction = (torch.randn(count, width, generator=draw, dtype=dtype) for _ in range(2))
    return x, lambda output: (output * direction.to(output.dtype)).sum()


def plain_log_norms(model, x, loss_fn):
    """Return ln(|delta_1| / |delta_D|) of each example by autograd alone."""
    outputs = []
    layers = [m for m in model.modules() if isinstance(m, nn.Linear)]
    handles = [layer.register_forward_hook(lambda m, a, y: outputs.append(y)) for layer in layers]
    first, last = torch.autograd.grad(loss_fn(model(x)), [outputs[0], outputs[-1]])
    for handle in handles:
        handle.remove()
    return (first.norm(dim=1).log() - last.norm(dim=1).log()).numpy()
