"""compare: one model under four initialisations, side by side, and left as it was."""

import copy

import pytest

torch = pytest.importorskip("torch")
from helpers.torch_models import generator, mlp, scaled_mlp  # noqa: E402
from torch import nn  # noqa: E402

import gradwalk.torch as gwt  # noqa: E402

X = torch.randn(8, 20, generator=generator(1))
SCHEMES = ["own", "kaiming", "orthogonal", "gradwalk"]


def squares(output):
    return output.square().sum()


@pytest.fixture(scope="module")
def comparison():
    torch.manual_seed(0)
    return gwt.compare(mlp([20, *[20] * 30, 4], nn.ReLU), X, squares)


def test_each_initialization_has_its_walk(comparison):
    assert list(comparison.walks) == SCHEMES
    assert comparison.walks["own"].status == "vanishing"
    assert comparison.walks["orthogonal"].status == "vanishing"
    assert abs(comparison.walks["gradwalk"].log_norm[0]) < abs(comparison.walks["own"].log_norm[0]) / 5
    assert comparison.walks["kaiming"].gains == pytest.approx(2**0.5, rel=0.15)


def test_the_own_walk_is_that_of_probe():
    model = scaled_mlp([20] * 6, nn.Tanh, 1.3)
    own = gwt.compare(model, X, squares).walks["own"]
    assert own.log_norm == pytest.approx(gwt.probe(model, X, squares).log_norm)


def test_the_model_and_the_random_state_stay_as_they_were():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Dropout(0.5), nn.Linear(20, 4))
    squares(model(X)).backward()
    state, random_state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    grads = [p.grad.clone() for p in model.parameters()]
    gwt.compare(model, X, squares)
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert all(torch.equal(grad, p.grad) for grad, p in zip(grads, model.parameters(), strict=True))
    assert torch.equal(torch.get_rng_state(), random_state)


def test_the_weights_are_restored_when_the_loss_fails():
    model = mlp([20, 20, 4], nn.ReLU)
    state, calls = copy.deepcopy(model.state_dict()), []

    def fails_later(output):
        calls.append(1)
        return squares(output) if len(calls) < 3 else 1 / 0

    with pytest.raises(ZeroDivisionError):
        gwt.compare(model, X, fails_later)
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())


def test_frozen_weights_are_not_drawn():
    model = mlp([20, 20, 20, 4], nn.ReLU)
    model[2].weight.requires_grad_(False)
    gains = [walk.gains[1] for walk in gwt.compare(model, X, squares).walks.values()]
    assert gains == pytest.approx([gains[0]] * 4)


def test_it_prints_and_has_columns(comparison):
    lines = str(comparison).splitlines()
    assert [line.split()[0] for line in lines[1:]] == SCHEMES
    assert max(map(len, lines)) <= 100
    assert comparison._repr_html_().count("<tr>") == 5
    columns = comparison.columns()
    assert list(columns) == ["layer", *SCHEMES]
    assert {len(values) for values in columns.values()} == {31}


def test_a_prediction_stands_only_beside_the_place_that_it_is_of():
    model = nn.Sequential(nn.LayerNorm(20), nn.Linear(20, 4))
    comparison = gwt.compare(model, X, squares)
    assert comparison.walks["own"].stream[0].name == "0"
    assert {line.split()[-1] for line in str(comparison).splitlines()[1:]} == {"-"}


def test_the_plot_has_a_line_for_each(comparison):
    pytest.importorskip("matplotlib")
    panel = comparison.plot()
    assert [text.get_text().partition(":")[0] for text in panel.get_legend().get_texts()] == SCHEMES
    assert panel.get_yscale() == "log"


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning")
def test_lazy_layers_are_named_in_one_sentence():
    with pytest.raises(ValueError, match=r"^compare: the model has lazy layers that are not yet materialised"):
        gwt.compare(nn.LazyLinear(2), torch.randn(4, 3), lambda y: y.sum())


def test_errors_begin_with_its_name():
    with pytest.raises(TypeError, match=r"^compare: model must be"):
        gwt.compare(lambda x: x, X, squares)
    with pytest.raises(ValueError, match=r"^compare: the model ran no weight layer"):
        gwt.compare(nn.Sequential(nn.Tanh()), X, squares)
