"""The slopes of activations, and the gradients at the inputs of convolutions, as autograd has them."""

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


@pytest.mark.parametrize(
    "module",
    [
        nn.Conv1d(4, 6, 3, padding=1),
        nn.Conv2d(4, 6, 3, stride=2, padding=1),
        nn.Conv2d(4, 6, (3, 1), padding=(2, 0), dilation=2, groups=2, bias=False),
        nn.Conv2d(4, 6, 3, padding="same"),
        nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"),
        nn.Conv3d(4, 6, 2),
        nn.ConvTranspose1d(4, 6, 3, stride=2),
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("batched", [True, False])
def test_the_gradient_at_the_input_of_a_convolution_is_that_of_autograd(module, batched):
    x = torch.randn(*[2] * batched, 4, *[7] * len(module.kernel_size), generator=generator(1), requires_grad=True)
    delta = torch.randn(module(x).shape, generator=generator(2))
    (right,) = torch.autograd.grad(module(x), x, delta)
    torch.testing.assert_close(draws.input_gradient(module, x.detach(), module.weight.detach(), delta), right)


def test_the_gradient_of_one_part_of_a_split_signal_is_that_of_autograd():
    a = layer_output()
    first, _ = a.clone().chunk(2, dim=1)
    assert torch.equal(slopes(first, a), torch.autograd.grad(first.sum(), a)[0])
