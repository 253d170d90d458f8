"""Remedies where too few directions pass: found for the depth, ranked, with their price."""

import json
import math

import pytest

import gradwalk as gw
from gradwalk.cli import main


@pytest.fixture(scope="module")
def advice():
    return gw.advise("relu", 16, 40, directions=3.0)


def test_a_leak_lets_enough_directions_pass_and_grows_with_depth():
    shallow, deep = (gw.leak_for("relu", 16, depth, directions=3.0) for depth in (15, 120))
    assert 0 < shallow < deep < 1
    for depth, leak in ((15, shallow), (120, deep)):
        found = gw.directions(gw.activation("relu").leaking(leak), 16, depth, weights="orthogonal", networks=100)
        assert found.backward + 3 * found.standard_error > 3.0
        assert found.backward < 1.6 * 3.0
    assert (1 - shallow) / (1 - deep) == pytest.approx(math.sqrt(8), rel=0.25)


def test_no_leak_where_none_is_needed_and_an_error_where_none_helps():
    assert gw.leak_for("tanh", 30, 3, directions=3.0) == 0.0
    with pytest.raises(ValueError, match="leak_for: no leak lets 3 directions pass 60 layers of 16 units"):
        gw.leak_for("relu", 16, 60, directions=3.0, weights="gaussian")


def test_what_serves_comes_first_and_the_least_linear_before_the_others(advice):
    assert [remedy.serves for remedy in advice.remedies] == sorted((r.serves for r in advice.remedies), reverse=True)
    assert advice.best is advice.remedies[0]
    assert advice.best.activation.startswith("leaky_relu(0.")
    assert advice.best.weights == "orthogonal"
    assert 0.2 < advice.best.nonlinear < 1
    assert advice.best.gain == pytest.approx(gw.gain(advice.best.activation, 16, 40, weights="orthogonal"))
    assert {"as it is", "orthogonal weights"} <= {remedy.name for remedy in advice.remedies}


def test_an_unsteady_activation_has_a_smaller_signal_and_a_scale_among_its_remedies():
    names = [remedy.name.split()[0] for remedy in gw.advise("gelu", 16, 30, directions=3.0).remedies]
    assert {"leak", "signal", "scale"} <= set(names)


def test_advice_prints_as_a_table(advice):
    lines = str(advice).splitlines()
    assert lines[0].startswith("40 layers of 16 units, relu: leak 0.")
    assert lines[1].split()[:2] == ["remedy", "activation"]
    assert len(lines) == 2 + len(advice.remedies)
    assert repr(advice) == f"Advice({advice.headline})"


def test_a_linear_net_is_no_more_than_linear():
    remedies = gw.advise("linear", 12, 20, directions=3.0).remedies
    assert remedies[0].name == "orthogonal weights"
    assert remedies[0].nonlinear == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    "command", ["directions relu --width 16 --depth 40", "advise relu --width 16 --depth 40 --directions 3"]
)
def test_the_commands_print_what_the_functions_return(command, capsys, advice):
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), "--json"])
    assert stopped.value.code == 0
    record = json.loads(capsys.readouterr().out)
    if "remedies" in record:
        assert record["remedies"][0]["activation"] == advice.best.activation
    else:
        assert record["backward"] == gw.directions("relu", 16, 40).backward
    with pytest.raises(SystemExit):
        main(command.split())
    assert "relu" in capsys.readouterr().out


def test_invalid_input_is_reported():
    with pytest.raises(ValueError, match="advise: directions must be more than 1 and below the width"):
        gw.advise("relu", 16, 40, directions=20.0)
    with pytest.raises(ValueError, match="advise: width must be at least 3"):
        gw.advise("relu", 2, 40)
