"""Stuck units: what counts is the slope of the activation, whatever happens on the way to it."""

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import Activation

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gradwalk.torch as gwt  # noqa: E402
from gradwalk.torch.calls import Call  # noqa: E402
from gradwalk.torch.stuck import stuck_shares  # noqa: E402

OWN = {
    "overflows to a slope of 0": Activation("own_tanh", np.tanh, lambda a: 1 / np.cosh(a) ** 2),
    "inf / inf in single precision": Activation(
        "own_sigmoid", lambda a: 1 / (1 + np.exp(-a)), lambda a: np.exp(a) / (1 + np.exp(a)) ** 2
    ),
    "x / inf in single precision": Activation(
        "own_root", lambda a: np.sqrt(1 + a * a), lambda a: np.abs(a) / np.sqrt(1 + a * a)
    ),
    "0 / 0 at the kink": Activation("own_ramp", lambda a: (a + np.abs(a)) / 2, lambda a: (1 + a / np.abs(a)) / 2, (0,)),
}
STUCK_AT = {  # outputs of units, and the share of these that are stuck
    "overflows to a slope of 0": ([200.0, 1e30, -200.0, 0.5], 0.75),
    "inf / inf in single precision": ([-100.0, 100.0, 80.0, 0.5], 0.75),
    "x / inf in single precision": ([1e20, -1e30, 1e-3, 0.5], 0.25),
    "0 / 0 at the kink": ([-1.0, -1e30, 3.0, 1e30], 0.5),
}


@pytest.mark.parametrize("case", OWN)
def test_a_derivative_that_overflows_on_the_way_neither_warns_nor_hides_stuck_units(case):
    outputs, share = STUCK_AT[case]
    call = Call("0", nn.Linear(4, 4), torch.zeros(8, 4), torch.tensor([outputs] * 8), 0)
    assert stuck_shares([call], [OWN[case]]).tolist() == [share]


class OwnTanh(nn.Module):
    def forward(self, a):
        return torch.tanh(a)


def test_probe_counts_stuck_units_of_a_registered_activation_at_outputs_of_200():
    gw.register("own_steep_tanh", np.tanh, lambda a: 1 / np.cosh(a) ** 2, torch=OwnTanh)
    layers = [nn.Linear(16, 16), OwnTanh(), nn.Linear(16, 4)]
    with torch.no_grad():
        layers[0].bias[:4] = 200.0
    walk = gwt.probe(nn.Sequential(*layers), torch.randn(20, 16), lambda y: y.square().mean())
    assert walk.columns()["reads"][1] == "own_steep_tanh"
    assert walk.stuck[0] == pytest.approx(0.25)
