"""The command line: what it prints, the files it writes, and the one line it prints for an error."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.command_line import run
from helpers.small_figures import use_small_figures
from typer.testing import CliRunner

import gradwalk
from gradwalk import cli
from gradwalk.cli.gain import gain
from gradwalk.cli.reproduce import reproduce
from gradwalk.cli.show import print_table
from gradwalk.cli.walk import walk
from gradwalk.figures.walks_picture import draw_walks
from gradwalk.theory import predicted_walk

COMMANDS = (cli.root, gain, walk, reproduce)


def failure(capsys, *arguments: str) -> str:
    """Return the one line on stderr of a command that must fail with exit code 2."""
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.startswith("gradwalk: ")
    assert err.count("\n") == 1
    return err.removeprefix("gradwalk: ").rstrip("\n")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.fixture
def quick(monkeypatch) -> list[tuple[str, int]]:
    """Figures small enough for a test; test_cli_reproduce draws them."""
    return use_small_figures(monkeypatch, empty=True)


def test_gain_prints_gain_scale_and_step() -> None:
    printed = run("gain", "relu", "--width", "100")
    step = gradwalk.step("relu", 100)
    for number in (gradwalk.gain("relu", 100), gradwalk.gain("relu", 100) / 10, step.drift, step.variance):
        assert f"{number:.6f}" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_a_sampled_gain_carries_its_standard_error_spread_and_kind() -> None:
    printed = run("gain", "tanh", "--width", "20", "--depth", "10")
    estimate = gradwalk.solve_gain("tanh", 20, 10)
    assert f"{estimate.value:.6f} ± {estimate.standard_error:.6f}" in printed
    assert f"{estimate.spread:.3f}" in printed
    assert "steady" in printed


def test_gain_as_json_is_one_object_with_the_numbers_of_the_library() -> None:
    answer = json.loads(run("gain", "relu", "--width", "50", "--formula", "paper", "--json"))
    assert answer["gain"] == gradwalk.gain("relu", 50, formula="paper")
    assert answer["drift"] == gradwalk.step("relu", 50, formula="paper").drift
    assert answer["standard_error"] is None


def test_several_widths_need_no_depth() -> None:
    answer = json.loads(run("gain", "relu", "--width", "30,20,10", "--json"))
    assert answer["gain"] == gradwalk.gain("relu", [30, 20, 10])
    assert answer["depth"] == 2
    assert answer["weight_std"] == pytest.approx([answer["gain"] / 30**0.5, answer["gain"] / 20**0.5])


def test_orthogonal_weights_are_passed_on() -> None:
    answer = json.loads(run("gain", "linear", "--width", "30", "--weights", "orthogonal", "--json"))
    assert answer["gain"] == 1.0


def test_an_unsteady_gain_is_reported_in_one_line_on_stderr() -> None:
    result = CliRunner().invoke(cli.app(), ["gain", "gelu", "--width", "20", "--depth", "60", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["kind"] == "unsteady"
    assert result.stderr.startswith("gradwalk: gain: gelu is unsteady")
    assert result.stderr.count("\n") == 1


def test_walk_prints_the_samples_of_the_library() -> None:
    answer = json.loads(run("walk", "relu", "--width", "20", "--depth", "30", "--walks", "50", "--seed", "4", "--json"))
    walks = gradwalk.simulate("relu", 20, 30, gain=gradwalk.gain("relu", 20), walks=50, rng=4)
    assert answer["gain"] == pytest.approx(gradwalk.gain("relu", 20), rel=1e-12)
    assert answer["mean"] == pytest.approx(walks.mean, abs=1e-9)
    assert answer["spread"] == pytest.approx(walks.spread)
    assert [at["layer"] for at in answer["layers"]] == [30, 22, 15, 8, 0]
    assert all(at["p5"] <= at["mean"] <= at["p95"] for at in answer["layers"])


def test_walk_passes_on_the_method() -> None:
    arguments = ("walk", "relu", "--width", "9", "--depth", "4", "--gain", "1.5", "--walks", "8", "--json", "--method")
    for method in ("exact", "dense"):
        walks = gradwalk.simulate("relu", 9, 4, gain=1.5, walks=8, rng=0, method=method)
        assert json.loads(run(*arguments, method))["mean"] == walks.mean


def test_walk_prints_a_table_within_80_columns() -> None:
    printed = run(
        "walk", "tanh", "--width", "20", "--depth", "8", "--gain", "1.2", "--walks", "30", "--method", "dense"
    )
    assert "tanh, depth 8, 30 walks" in printed
    assert re.search(r"layer +mean log-norm +5 % +95 %", printed)
    assert max(map(len, printed.splitlines())) <= 80


def test_one_walk_has_no_spread_and_stays_valid_json() -> None:
    answer = json.loads(run("walk", "linear", "--width", "5,4,3", "--walks", "1", "--json"))
    assert (answer["spread"], answer["standard_error"]) == (None, None)


@pytest.mark.parametrize(("activation", "ending"), [("relu", "png"), ("tanh", "pdf"), ("linear", "svg")])
def test_walk_draws_in_the_format_of_the_ending(tmp_path: Path, activation: str, ending: str) -> None:
    path = tmp_path / f"walk.{ending}"
    run("walk", activation, "--width", "10", "--depth", "5", "--gain", "1.1", "--walks", "9", "--out", str(path))
    start = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[ending]
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize(("activation", "source"), [("relu", "predicted"), ("tanh", "measured")])
def test_the_picture_of_walks_has_the_band_that_theory_predicts_where_it_can(activation: str, source: str) -> None:
    walks = gradwalk.simulate(activation, [9, 6, 12], gain=[1.3, 1.1], walks=100, rng=1)
    panel = draw_walks(walks).axes[0]
    lines = {line.get_label(): line.get_ydata() for line in panel.lines}
    band = predicted_walk("relu", [9, 6, 12], [1.3, 1.1])
    mean, deviation = walks.log_norm.mean(axis=0), walks.log_norm.std(axis=0)
    lower = band.mean - 2 * band.deviation if source == "predicted" else mean - 2 * deviation
    assert lines[f"{source}, ± 2 s.d."] == pytest.approx(lower)
    assert lines["mean of all walks"] == pytest.approx(mean)
    assert panel.get_title() == f"{activation}, D = 2, g = 1.1 to 1.3"


def test_activations_lists_all_with_kind_and_slope() -> None:
    rows = [line.split() for line in run("activations").splitlines()]
    assert ["tanh", "steady", "1"] in rows
    assert ["gelu", "unsteady", "0.5"] in rows
    assert len(rows) - 1 >= len(gradwalk.activations.names())


def test_no_command_prints_the_help() -> None:
    assert "gradwalk gain relu --width 100" in run()


@pytest.mark.parametrize("command", COMMANDS[1:], ids=lambda command: command.__name__)
def test_help_of_a_command_shows_its_examples(command) -> None:
    shown = " ".join(run(command.__name__, "--help").split())
    examples = re.findall(r"`(gradwalk .+)`", command.__doc__)
    assert examples
    assert all(example in shown for example in examples)


@pytest.mark.usefixtures("quick")
def test_every_example_in_the_help_runs(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        for example in re.findall(r"`gradwalk (.+)`", command.__doc__):
            if "/corpora" not in example:  # not everyone has it
                run(*shlex.split(example))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("gain rellu --width 3", "there is no activation 'rellu'; did you mean 'relu'?"),
        ("gain relu --width 0", "--width must be at least 1, got --width 0"),
        ("gain relu --width ten", "--width must be a whole number or comma-separated whole numbers, got 'ten'"),
        ("gain tanh --width 10", "the gain of tanh depends on depth, which is missing; pass --depth"),
        ("gain relu --width 9 --weights odd", "'odd' is not one of 'gaussian', 'orthogonal'."),
        ("gain relu", "--width"),
        ("gain relu --width 9 --colour red", "--colour"),
        ("gaim relu", "gaim"),
        ("walk relu --width 9 --depth 3 --walks 0", "--walks must be at least 1, got --walks 0"),
        ("walk relu --width 9 --depth 3 --gain -1", "--gain must be positive and finite, got --gain -1.0"),
        ("walk relu --width 9 --depth 3 --out walk.bmp", "a figure is written as .png, .pdf, .svg"),
        ("reproduce fig9", "there is no figure 'fig9'; did you mean 'fig"),
        ("gain relu --width 9 --weights gausian", "did you mean 'gaussian'?"),
        ("gain relu --width 9 --depth x", "Invalid value for '--depth': a whole number is needed"),
        ("gain relu --widht 9", "--width"),
        ("reproduce fig3 --scale lptop", "got --scale 'lptop'; did you mean 'laptop'?"),
        ("reproduce fig4d --data timit", "--data must be NAME=FOLDER, such as timit=/corpora/TIMIT, got 'timit'"),
        ("data fetch mnsit", "there is no data set 'mnsit'; did you mean 'mnist'?"),
        ("sweep staus runs", "there is no command or file 'staus'; did you mean 'status'?"),
        ("reproduce fig1 --seed -1", "--seed must be at least 0, got --seed -1"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments: str, sentence: str) -> None:
    assert sentence in failure(capsys, *arguments.split())


def test_an_unwritable_path_is_reported_before_anything_is_sampled(capsys, tmp_path: Path, monkeypatch, quick) -> None:
    monkeypatch.setattr(gradwalk, "simulate", None)
    file = tmp_path / "file"
    file.touch()
    walk = ("walk", "relu", "--width", "9", "--depth", "3", "--out")
    assert "Not a directory" in failure(capsys, *walk, str(file / "walk.png"))
    assert "No such file" in failure(capsys, *walk, str(tmp_path / "none" / "walk.png"))
    assert "cannot use" in failure(capsys, "reproduce", "fig1", "--out", str(file))
    assert "fig1.csv" in failure(capsys, "reproduce", "fig1", "--out", str(tmp_path), "--redraw")
    assert quick == []


def test_a_bug_is_one_line_with_the_way_to_its_traceback(capsys, monkeypatch) -> None:
    def broken(*_: object, **__: object) -> float:
        raise AssertionError("a bug")

    monkeypatch.setattr(gradwalk, "describe_gain", broken)
    with pytest.raises(SystemExit) as ended:
        cli.main(["gain", "relu", "--width", "9"])
    assert ended.value.code == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "AssertionError: a bug; set GRADWALK_TRACEBACK=1 to see where" in errors
    monkeypatch.setenv("GRADWALK_TRACEBACK", "1")
    with pytest.raises(AssertionError, match="a bug"):
        cli.main(["gain", "relu", "--width", "9"])


def test_a_missing_module_is_reported_with_its_extra(capsys, monkeypatch) -> None:
    def missing(*_: object, **__: object) -> float:
        raise ModuleNotFoundError("No module named 'torch'", name="torch.nn")

    monkeypatch.setattr(gradwalk, "describe_gain", missing)
    assert failure(capsys, "gain", "relu", "--width", "9") == "this needs torch: pip install 'gradwalk[torch]'"


def leaf_commands() -> dict[str, object]:
    """Return every command that does something, by the words that call it."""
    from typer.main import get_command

    def below(path: tuple[str, ...], command: object) -> dict[str, object]:
        inner = getattr(command, "commands", None)
        if inner is None:
            return {" ".join(path): command}
        return {key: leaf for name, each in inner.items() for key, leaf in below((*path, name), each).items()}

    return below((), get_command(cli.app()))


def test_every_command_has_examples_and_json() -> None:
    for words, command in leaf_commands().items():
        assert re.search(rf"`gradwalk {words.replace('sweep run', 'sweep')}\b.*`", command.help), words
        assert any("--json" in param.opts for param in command.params), words


@pytest.mark.parametrize("words", ["gain", "data list", "reproduce"])
def test_flags_are_shown_without_a_type(words: str) -> None:
    assert "--json" in (shown := run(*words.split(), "--help"))
    assert "<bool>" not in shown


@pytest.mark.parametrize("arguments", ["data list", "activations", "gain tanh --width 9 --depth 4"])
def test_tables_fit_60_columns(arguments: str, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = run(*arguments.split()).splitlines()
    table = [line for line in lines if not line.startswith("data folder:")]
    assert max(map(len, table)) <= 60
    assert not any("…" in line for line in table)


def test_a_table_wider_than_the_terminal_is_printed_in_blocks(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    print_table([("name", "first", "second"), ("a", "12345678", "x"), ("b", "1", "")])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["a"],
        ["-", "first", "12345678"],
        ["-", "second", "x"],
        ["b"],
        ["-", "first", "1"],
    ]


def test_lists_are_printed_as_json(cache: Path) -> None:
    assert json.loads(run("activations", "--json"))["tanh"] == {"kind": "steady", "slope": 1.0}
    listed = json.loads(run("data", "list", "--json"))
    assert listed["folder"] == str(cache)
    assert listed["sets"]["mnist"]["place"] is None
    assert json.loads(run("data", "where", "--json")) == {"folder": str(cache)}


def test_names_are_completed_by_the_shell() -> None:
    result = subprocess.run(
        [Path(sys.executable).parent / "gradwalk"],
        env={
            **os.environ,
            "_GRADWALK_COMPLETE": "complete_bash",
            "COMP_WORDS": "gradwalk gain leaky",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "leaky_relu" in result.stdout.split()


def test_the_explorer_is_written(tmp_path: Path) -> None:
    path = tmp_path / "explorer.html"
    assert json.loads(run("explorer", "--out", str(path), "--json")) == {"written": [str(path)]}
    assert 'id="explorer"' in path.read_text("utf-8")


def test_ctrl_c_exits_130_with_one_line(capsys, monkeypatch) -> None:
    def interrupted(*_: object, **__: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(gradwalk, "describe_gain", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main(["gain", "relu", "--width", "9"])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "gradwalk: interrupted\n"


def test_the_installed_command_prints_its_version() -> None:
    command = Path(sys.executable).parent / "gradwalk"
    result = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"gradwalk {gradwalk.__version__}\n", "")


def test_the_installed_command_fails_without_a_traceback() -> None:
    command = Path(sys.executable).parent / "gradwalk"
    result = subprocess.run([command, "gain", "relu", "--width", "0"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "gradwalk: --width must be at least 1, got --width 0\n"


@pytest.mark.parametrize("missing", ["typer", "rich", "matplotlib", "jinja2"])
def test_a_missing_extra_is_reported_with_the_command_that_installs_it(missing: str) -> None:
    result = python(f"""
import importlib.machinery, sys

class Hidden(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == {missing!r} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Hidden
from gradwalk.cli import main
main(["--version"])
""")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"gradwalk: the command line needs {missing}: pip install 'gradwalk[experiments]'\n"


def test_matplotlib_is_loaded_only_where_a_figure_is_drawn() -> None:
    result = python("""
import sys
from gradwalk import cli
cli.app()(["gain", "relu", "--width", "9"], standalone_mode=False)
assert "matplotlib" not in sys.modules
""")
    assert result.returncode == 0, result.stderr
