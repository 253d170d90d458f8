"""gradwalk.torch.plan and init_: what is left alone, for which reason, and how a user chooses."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402
from helpers.torch_models import Wired, mlp, residual, square  # noqa: E402
from torch import nn  # noqa: E402

import gradwalk.torch as gwt  # noqa: E402
from gradwalk.torch import LayerRole  # noqa: E402

# Never touched unless named.


def kept(model, plan):
    """Return the names of the layers whose weights a plan does not draw, after a check that init_ leaves them."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gwt.init_(model, keep_fine=False)
    names = [row.name for row in plan.rows if row.reason]
    for name in names:
        assert torch.equal(model.state_dict()[f"{name}.weight"], before[f"{name}.weight"])
    return names


def test_frozen_zero_and_purposely_small_layers_are_left_alone():
    model = mlp([12] * 6, nn.ReLU)
    model[2].weight.requires_grad_(False)
    nn.init.zeros_(model[4].weight)
    nn.init.orthogonal_(model[8].weight, 0.01)
    plan = gwt.plan(model, keep_fine=False)
    assert [plan.row(name).reason.split(":")[0] for name in ("2", "4", "8")] == [
        "frozen",
        "zero on purpose",
        "scaled on purpose",
    ]
    assert kept(model, plan) == ["0", "2", "4", "8"]
    assert plan.row("0").reason == "2 above it is outside the theory"


def test_adapters_are_left_alone():
    class Adapted(nn.Module):
        def __init__(self):
            super().__init__()
            self.base, self.lora_A, self.lora_B = square(), nn.Linear(12, 2), nn.Linear(2, 12)
            self.base.weight.requires_grad_(False)
            nn.init.zeros_(self.lora_B.weight)

        def forward(self, x):
            return self.base(x) + self.lora_B(self.lora_A(x))

    model = nn.Sequential(square(), nn.ReLU(), Adapted(), nn.ReLU(), square())
    plan = gwt.plan(model, keep_fine=False)
    assert [row.reason.split(",")[0] for row in plan.rows[1:4]] == [
        "frozen: requires_grad is False",
        "an adapter",
        "an adapter",
    ]
    assert kept(model, plan)[-3:] == ["2.base", "2.lora_A", "2.lora_B"]


def test_a_layer_that_computes_its_own_weights_is_left_alone():
    class Standardised(nn.Linear):
        def forward(self, x):
            return F.linear(x, self.weight / self.weight.std())

    plan = gwt.plan(nn.Sequential(Standardised(12, 12), nn.ReLU(), square()), keep_fine=False)
    assert plan.rows[0].reason.startswith("its class has a forward of its own")


def test_a_wrapper_that_is_only_called_attention_is_looked_into():
    class Attention(nn.Module):
        def forward(self, x):
            return x

    model = nn.Sequential(square(), Attention(), nn.ReLU(), square())
    assert [row.activation for row in gwt.plan(model).rows] == ["linear", "relu"]


def test_complex_weights_are_left_alone():
    model = nn.Sequential(nn.Linear(4, 4, dtype=torch.complex64), nn.Linear(4, 4, dtype=torch.complex64))
    assert {row.reason for row in gwt.init_(model).rows} == {"complex weights"}


def test_a_bias_set_on_purpose_stays():
    model = mlp([12, 12, 3], nn.ReLU)
    nn.init.constant_(model[2].bias, -4.6)
    gwt.init_(model, keep_fine=False)
    assert not model[0].bias.any()
    assert bool((model[2].bias == -4.6).all())


@pytest.mark.parametrize(
    "wiring",
    [
        lambda m, x: torch.exp(m.c(torch.relu(m.b(torch.relu(m.a(x)))))) * x,
        lambda m, x: x * m.c(torch.relu(m.b(torch.relu(m.a(x))))),
        lambda m, x: F.scaled_dot_product_attention(m.a(x), m.b(x), m.c(x)),
        lambda m, x: torch.cumsum(m.c(torch.relu(m.b(torch.relu(m.a(x))))), 0),
    ],
    ids=["coupling", "gate", "attention", "unknown"],
)
def test_a_network_whose_output_has_no_known_law_is_left_alone(wiring):
    model = Wired(wiring, a=square(), b=square(), c=square())
    plan = gwt.plan(model, torch.ones(2, 12))
    assert plan.drawn == ()
    assert plan.remarks == ("No layer is drawn: the model stays as it is.",)
    assert all(row.role is LayerRole.OUTSIDE and row.reason for row in plan.rows)


def test_only_and_skip_take_names_patterns_and_types():
    model = nn.Sequential(mlp([12] * 4, nn.ReLU), nn.ReLU(), nn.Conv1d(12, 12, 1))
    assert [row.name for row in gwt.plan(model, only="0.*", keep_fine=False).drawn] == ["0.0", "0.2", "0.4"]
    assert [row.name for row in gwt.plan(model, only=nn.Conv1d, keep_fine=False).drawn] == ["2"]
    assert [row.name for row in gwt.plan(model, skip=["0.0", nn.Conv1d], keep_fine=False).drawn] == ["0.2", "0.4"]
    with pytest.raises(ValueError, match=r"^plan: only='decoder\.\*' matches no weight layer; there are 0\.0, 0\.2"):
        gwt.plan(model, only="decoder.*")
    with pytest.raises(TypeError, match=r"^init_: skip must be names, patterns or types of layers, got 3"):
        gwt.init_(model, skip=[3])


def test_a_layer_that_is_named_is_drawn_and_one_chosen_by_type_is_not():
    model = mlp([12] * 4, nn.ReLU)
    nn.init.zeros_(model[2].weight)
    model[4].weight.requires_grad_(False)
    assert gwt.plan(model, only=nn.Linear).row("2").proposed is None
    plan = gwt.init_(model, only=["2", "4"])
    assert [row.name for row in plan.drawn] == ["2", "4"]
    assert bool(model[2].weight.any())


def test_a_zero_layer_of_a_plain_chain_is_drawn_if_it_is_named():
    model = mlp([12] * 4, nn.ReLU)
    nn.init.zeros_(model[2].weight)
    assert [row.name for row in gwt.plan(model, only="2").drawn] == ["2"]


def test_a_residual_net_that_is_left_alone_has_no_remark_on_scaled_branches():
    assert gwt.plan(residual(6)).remarks == ("No layer is drawn: the model stays as it is.",)


def test_a_model_without_weight_layers_is_left_alone_with_the_reason():
    plan = gwt.init_(nn.LSTM(2, 2))
    assert plan.rows == ()
    assert plan.left_alone[0].why == "the same weights at every time step"
    assert plan.remarks == ("No layer is drawn: the model stays as it is.",)


def test_a_model_in_which_nothing_is_drawn_stays_as_it_is():
    model = nn.Sequential(nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4))
    before = copy.deepcopy(model.state_dict())
    plan = gwt.init_(model)
    assert plan.drawn == ()
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
