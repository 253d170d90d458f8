"""One tracer: init_, probe, calibrate_ and Monitor see the same layers, and run a model no more often than needed."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from helpers.torch_models import Conv1D, Wired, generator, mlp  # noqa: E402
from torch import nn  # noqa: E402

import gradwalk.torch as gwt  # noqa: E402
from gradwalk.torch import Note  # noqa: E402

X = torch.randn(16, 12, generator=generator(1))


def squares(output):
    return output.square().sum()


def square():
    return nn.Linear(12, 12)


class Counted(Wired):
    """Counts how often it is run."""

    runs = 0

    def forward(self, x):
        self.runs += 1
        return super().forward(x)


def wired(wiring):
    return Counted(wiring, a=square(), b=square(), c=square())


def chain(m, x):
    return m.c(torch.tanh(m.b(torch.tanh(m.a(x)))))


# How often a model runs.


def test_probe_runs_a_model_once_whatever_it_is():
    for wiring in (chain, lambda m, x: m.c(x + torch.relu(m.b(m.a(x))))):
        model = wired(wiring)
        gwt.probe(model, X, squares)
        assert model.runs == 1


def test_init_runs_a_model_once_on_an_example_and_not_at_all_without():
    model = wired(chain)
    gwt.init_(model, example=X)
    assert model.runs == 1
    model = Wired(lambda m, x: pytest.fail("a chain was run"), net=mlp([12, 12, 12], nn.Tanh))
    gwt.init_(model.net, example=X)


def test_calibrate_runs_a_model_as_often_as_it_reports():
    model = wired(chain)
    gwt.init_(model, example=X)
    model.runs = 0
    result = gwt.calibrate_(model, X, squares)
    assert result.passes == model.runs
    assert 3 < model.runs < 100


def test_probe_of_a_wired_model_is_that_of_the_same_chain():
    model = wired(chain)
    gwt.init_(model, example=X, generator=generator(0))
    same = gwt.probe(nn.Sequential(model.a, nn.Tanh(), model.b, nn.Tanh(), model.c), X, squares)
    walk = gwt.probe(model, X, squares)
    for name in ("log_norm", "predicted", "z", "forward", "stuck"):
        np.testing.assert_array_equal(getattr(walk, name), getattr(same, name))


# The same layers everywhere.


def test_all_see_the_same_layers():
    block = Wired(chain, a=square(), b=Conv1D.like(square()), c=nn.Linear(12, 3))
    names = ("a", "b", "c")
    assert tuple(row.name for row in gwt.init_(block, example=X).rows) == names
    assert gwt.probe(block, X, squares).layers == names
    assert gwt.calibrate_(block, X, squares).after.layers == names
    with gwt.Monitor(block) as monitor:
        squares(block(X)).backward()
        assert monitor.step().layers == names


def test_a_conv1d_of_transformers_is_measured_and_predicted_as_the_linear_layer_it_is():
    linear = mlp([12, 20, 20, 3], nn.Tanh)
    gwt.init_(linear, generator=generator(0), weights="orthogonal")
    turned = nn.Sequential(*(Conv1D.like(each) if isinstance(each, nn.Linear) else each for each in linear))
    expected, walk = (gwt.probe(model, X, squares) for model in (linear, turned))
    assert walk.layers == expected.layers
    assert walk.widths == expected.widths
    for name in ("log_norm", "predicted", "low", "forward", "stuck"):
        np.testing.assert_allclose(getattr(walk, name), getattr(expected, name), atol=1e-5)


def test_weights_that_are_far_too_large_in_a_conv1d_are_not_called_healthy():
    model = nn.Sequential(Conv1D.like(square()), nn.Tanh(), Conv1D.like(square()), nn.Tanh(), nn.Linear(12, 2))
    gwt.init_(model)
    gwt.probe(model, X, squares).assert_healthy()
    with torch.no_grad():
        model[2].weight.mul_(1e4)
    assert gwt.probe(model, X, squares).status != "healthy"


def test_the_fan_in_of_a_transposed_convolution_is_the_same_for_init_and_probe():
    model = nn.Sequential(nn.Conv2d(2, 8, 3), nn.ReLU(), nn.ConvTranspose2d(8, 6, 4, stride=2, groups=2))
    layers = gwt.find_layers(model).weight_layers
    walk = gwt.probe(model, torch.randn(2, 2, 6, 6, generator=generator(2)), squares)
    assert [layer.fan_in for layer in layers] == [18, 16]
    assert walk.widths == (18, 16)


@pytest.mark.parametrize("between", [[], [nn.LayerNorm(64)]], ids=["read off", "followed"])
@pytest.mark.parametrize("example", [None, torch.ones(4, 16, 8)], ids=["traced", "run"])
def test_layers_over_different_dimensions_follow_each_other(example, between):
    model = nn.Sequential(nn.Linear(8, 64), *between, nn.ReLU(), nn.Conv1d(16, 32, 1))
    layers = gwt.find_layers(model, example=example).weight_layers
    assert [layer.activation.name for layer in layers] == ["linear", "relu"]


def test_a_mixer_that_turns_its_dimensions_is_followed_on_an_example():
    def wiring(m, x):
        return m.b(torch.relu(m.a(x)).transpose(1, 2))

    def unturned(m, x):
        return m.c(torch.relu(m.a(x)))

    example = torch.ones(2, 5, 8)
    model = Wired(wiring, a=nn.Linear(8, 6), b=nn.Linear(5, 3))
    assert [layer.name for layer in gwt.find_layers(model, example=example).weight_layers] == ["a", "b"]
    model = Wired(unturned, a=nn.Linear(8, 6), c=nn.Conv1d(5, 3, 1))
    assert [layer.name for layer in gwt.find_layers(model, example=example).weight_layers] == ["a", "c"]


# What the trace knows.


@pytest.mark.parametrize("example", [None, X], ids=["traced", "run"])
def test_a_trace_has_the_order_the_merges_and_the_outputs(example):
    def wiring(m, x):
        x = m.a(x)
        x = torch.relu(x + m.b(x))
        return m.c(x), m.b(x)

    layers = gwt.find_layers(wired(wiring), example=example)
    trace = layers.trace
    assert trace.order == ["a", "b", "c", "b"]
    assert [(merge.operation, merge.note) for merge in trace.merges] == [("add", Note.RESIDUAL)]
    assert [signal.sources for signal in trace.merges[0].signals] == [{"a"}, {"b"}]
    assert [signal.sources for signal in trace.outputs] == [{"c"}, {"b"}]
    assert {layer.name: layer.reads for layer in layers.weight_layers} == {"a": (), "b": ("a",), "c": ("a", "b")}


def test_notes_are_outside_the_theory_or_remarks():
    outside = {note for note in Note if note.outside}
    assert outside == {Note.RESIDUAL, Note.NORM, Note.ATTENTION, Note.RECURRENT, Note.REPEATED, Note.GATED}
    assert all(str(note).endswith("outside the theory of chains") == note.outside for note in Note)


def test_the_reason_for_leaving_a_module_alone_is_data():
    model = nn.Sequential(square(), nn.LayerNorm(12), nn.utils.parametrizations.weight_norm(square()))
    layers = gwt.find_layers(model)
    assert [each.reason for each in layers.left_alone] == [gwt.Exclusion.NORM]
    assert [layer.objection for layer in layers.weight_layers] == [None, gwt.Exclusion.PARAMETRISED]


def test_an_activation_that_gradwalk_does_not_know_is_no_obstacle_to_the_prediction():
    model = wired(lambda m, x: m.c(torch.tanh(m.b(torch.sinc(m.a(x))))))
    walk = gwt.probe(model, X, squares)
    assert walk.reads[1] is None
    assert np.isfinite(walk.predicted).all()
    assert walk.notes == ()


@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")  # torch's, of that version
def test_a_compiled_model_is_probed_as_the_model_it_is():
    model = wired(chain)
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        compiled(X)  # compiles
    walk, expected = gwt.probe(compiled, X, squares), gwt.probe(model, X, squares)
    np.testing.assert_array_equal(walk.log_norm, expected.log_norm)
    np.testing.assert_array_equal(walk.predicted, expected.predicted)
    assert [row.activation for row in gwt.init_(compiled, example=X).rows] == ["linear", "tanh", "tanh"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_scripted_model_is_refused_by_the_function_that_was_called():
    model = torch.jit.script(mlp([12, 12], nn.Tanh))
    for name, call in {
        "init_": gwt.init_,
        "find_layers": gwt.find_layers,
        "probe": lambda model: gwt.probe(model, X, squares),
        "calibrate_": lambda model: gwt.calibrate_(model, X, squares),
        "Monitor": gwt.Monitor,
    }.items():
        with pytest.raises(TypeError, match=f"^{name}: model must not be a ScriptModule"):
            call(model)


# The model stays as it is.


@pytest.mark.parametrize("example", [None, X], ids=["traced", "run"])
def test_buffers_that_the_model_replaces_are_restored(example):
    class Counting(Wired):
        def __init__(self):
            super().__init__(None, a=square(), b=square())
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count = self.count + 1
            return self.b(torch.tanh(self.a(x)))

    model = Counting()
    before = copy.deepcopy(model.state_dict())
    gwt.find_layers(model, example=example)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
