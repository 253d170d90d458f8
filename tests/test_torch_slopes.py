"""The slopes of activations, with and without the engine of autograd."""

import pytest

torch = pytest.importorskip("torch")

from helpers.torch_models import generator  # noqa: E402
from torch import nn  # noqa: E402

from gradwalk.torch import draws  # noqa: E402


class Doubled(torch.autograd.Function):
    """A function of a user's own."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, delta):
        return 2 * delta


def slopes(output, at):
    """Return the slopes of one function."""
    (only,) = draws.all_slopes([output], [at], torch.ones_like(output))
    return only


def layer_output():
    return nn.functional.linear(torch.randn(4, 3, generator=generator(0)), torch.ones(5, 3, requires_grad=True))


@pytest.mark.parametrize("f", [torch.tanh, nn.functional.leaky_relu, nn.functional.gelu, lambda a: Doubled.apply(a)])
def test_slopes_are_the_gradient_of_the_sum(f):
    a = layer_output()
    h = f(a.clone())
    assert torch.equal(slopes(h, a), torch.autograd.grad(h.sum(), a)[0])


def test_slopes_of_one_function_of_torch_need_no_engine(monkeypatch):
    a = layer_output()
    h = torch.tanh(a.clone())
    monkeypatch.setattr(draws, "pulled_back", None)
    assert torch.allclose(slopes(h, a), 1 - h.detach().square())


def test_slopes_of_two_functions_or_with_a_hook_are_those_of_autograd():
    a = layer_output()
    twice, hooked = torch.tanh(torch.tanh(a.clone())), torch.tanh(a.clone())
    hooked.register_hook(lambda delta: 3 * delta)
    assert torch.equal(slopes(twice, a), torch.autograd.grad(twice.sum(), a, retain_graph=True)[0])
    assert torch.allclose(slopes(hooked, a), 3 * (1 - hooked.detach().square()))
