"""A spec spans its runs, and errors in it name the file and the key."""

from itertools import product

import pytest
from helpers.small_sweep import SMALL

pytest.importorskip("torch")
pytest.importorskip("pydantic")

from gradwalk.data import load
from gradwalk.sweep import Spec
from gradwalk.sweep.spec import KEYS


def test_a_grid_is_the_product_of_its_lists_and_the_last_key_varies_fastest():
    runs = Spec.load(SMALL).runs()
    assert [(run.depth, run.gain) for run in runs] == list(product((3, 4), (1.0, 1.2)))
    assert {run.epochs for run in runs} == {2}


def test_each_table_is_a_grid_of_its_own_and_a_repeated_run_is_trained_once():
    spec = Spec.load(
        SMALL + "[[runs]]\nactivation = 'tanh'\n[[runs]]\nactivation = ['relu', 'tanh']\ngain = [1.2, 1.4]"
    )
    spanned = {(run.activation, run.depth, run.gain) for run in spec.runs()}
    assert spanned == set(product(["tanh"], (3, 4), (1.0, 1.2, 1.4))) | set(product(["relu"], (3, 4), (1.2, 1.4)))
    assert (len(spec.runs()), spec.count) == (10, 12)


def test_deepest_is_the_greatest_depth_of_all_tables_unless_it_is_set():
    spec = Spec.load(SMALL + "[[runs]]\ndepth = 3\n[[runs]]\ndepth = 5\n[[runs]]\ndepth = 3\ndeepest = 9\n")
    assert [run.deepest for run in spec.runs()] == [5, 5, None, None, 9, 9]


def test_specs_of_other_depths_share_the_runs_that_the_greatest_depth_does_not_change():
    data = load("digits", examples=100)
    shallow, deep = (Spec.load(SMALL, [f"depth={depths}", "rate_in=0.01"]).runs() for depths in ([3, 4], [3, 9]))
    assert shallow[0].identity(data) == deep[0].identity(data)
    shallow, deep = (Spec.load(SMALL, [f"depth={depths}"]).runs() for depths in ([3, 4], [3, 9]))
    assert shallow[0].identity(data) != deep[0].identity(data)


@pytest.mark.parametrize(
    "text",
    [
        SMALL,
        'name = "\\"b\\" ü"\nclip = "none"\ngain = ["none", 1.1]\nscaling = "none"\nstop_at_zero = true\nparams = 1e16',
        SMALL + '[[runs]]\n[[runs]]\nactivation = "leaky_relu(0.2)"\nseed = [0, 9223372036854775807]\n',
    ],
)
def test_a_spec_prints_as_toml_that_loads_as_the_same_spec(text):
    spec = Spec.load(text)
    assert Spec.load(spec.toml()) == spec
    assert Spec.load(spec.toml()).runs() == spec.runs()


def test_none_is_None_only_where_a_setting_may_be_None():
    (run,) = Spec.load('clip = "none"\ngain = "none"\nscaling = "none"').runs()
    assert (run.clip, run.gain, run.scaling) == (None, None, "none")


def test_overrides_replace_the_settings_of_all_tables():
    spec = Spec.load(
        SMALL + "[[runs]]\ngain = 1.3\nepochs = 9\n", ["epochs=3", "gain=[1.1]", "data=mnist", "clip=none"]
    )
    assert {(run.epochs, run.gain, run.data, run.clip) for run in spec.runs()} == {(3, 1.1, "mnist", None)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("depht = 3", "there is no setting 'depht'; did you mean 'depth'?"),
        ("colour = 3", f"there is no setting 'colour'; known are {', '.join(KEYS)}"),
        ("[[run]]\ndepth = 3", "there is no setting 'run'; did you mean 'runs'?"),
        ("[[runs]]\ndepht = 3", "there is no setting 'depht'; did you mean 'depth'?"),
        ("[runs]\ndepth = 3", "runs must be tables, each written as [[runs]]"),
        ("depth = 1", "depth must be greater than or equal to 2, got depth=1"),
        ("depth = [4, 1]", "depth must be greater than or equal to 2, got depth=1"),
        ("depth = true", "depth must not be true or false, got depth=true"),
        ("gain = []", "gain must have at least one value, got gain=[]"),
        ("gain = [[1.0], [1.1]]", "gain must be a valid number, got gain=[1.0]"),
        ('task = "sing"', "task must be 'classify' or 'reconstruct', got task='sing'"),
        ('data = "mnits"', "there is no data set 'mnits'; did you mean 'mnist'?"),
        ("depth = 8\ndeepest = 4", "deepest must be at least the depth 8, got deepest=4"),
        ("name = 3", "name must be one line of text, got name=3"),
        ("depth = ", "not TOML: Invalid value (at end of document)"),
        (
            "seed = [" + "0, " * 320 + "1]\ndata_seed = [" + "0, " * 320 + "1]",
            "the grid must have at most 100,000 runs, got 103,041",
        ),
    ],
)
def test_errors_in_a_spec_name_the_file_and_the_key(tmp_path, text, message):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"sweep: mine\.toml: ") as caught:
        Spec.load(path)
    assert str(caught.value).startswith(f"sweep: mine.toml: {message}")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("epohs=3", "sweep: there is no setting 'epohs'; did you mean 'epochs'?"),
        ("epochs", "sweep: a setting is written key=value, got 'epochs'"),
        ("epochs=", "sweep: a setting is written key=value, got 'epochs='"),
        ("gain=[1.0", "sweep: gain has an invalid value, got 'gain=[1.0'"),
        ("epochs=many", "sweep: epochs must be a valid integer, unable to parse string as an integer"),
    ],
)
def test_errors_in_an_override_name_the_key(setting, message):
    with pytest.raises(ValueError, match=r"^sweep: ") as caught:
        Spec.load(SMALL, [setting])
    assert str(caught.value).startswith(message)
