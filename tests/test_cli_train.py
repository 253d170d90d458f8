"""`gradwalk train` as its user types it."""

import os
import re
import shlex
from itertools import product

import pandas as pd
import pytest
from helpers.processes import ended, interrupt_after_epoch, started
from helpers.small_sweep import numbers
from typer.main import get_command
from typer.testing import CliRunner

from gradwalk import cli
from gradwalk.nets import INITIALISERS, OPTIMIZERS, load_network
from gradwalk.sweep import Store
from gradwalk.sweep.folder import network_path
from gradwalk.train import Run

SMALL = ("--data", "digits", "--examples", "300", "--depth", "5", "--params", "3000")


def call(*arguments):
    return CliRunner().invoke(cli.app(), ["train", *map(str, arguments)], catch_exceptions=False)


def results(folder):
    with Store(folder) as store:
        return store.results()


def test_it_leaves_a_sweep_with_metrics_curve_and_network(tmp_path):
    result = call(*SMALL, "--epochs", 2, "--out", tmp_path / "run")
    assert result.exit_code == 0
    assert "tanh D=5 N=" in result.stdout
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"sweep.sqlite", "lock", "metrics.csv", "curve.png", "networks"}
    assert (tmp_path / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")
    metrics = pd.read_csv(tmp_path / "run" / "metrics.csv")
    assert (metrics["epoch"].tolist(), set(metrics["depth"])) == ([1, 2], {5})
    (trained,) = results(tmp_path / "run")
    assert len(load_network(network_path(tmp_path / "run", trained.identity))) == 9


def test_without_options_it_trains_the_default_run(monkeypatch):
    runs = []
    monkeypatch.setattr("gradwalk.sweep.plan", lambda spec, *_, **__: runs.extend(spec.runs()) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call()
    assert runs == [Run()]


def test_the_help_shows_the_defaults_of_a_run_and_the_built_in_names():
    options = {option.name: option for option in get_command(cli.app()).commands["train"].params}
    assert set(Run.model_fields) <= set(options)
    for name, field in Run.model_fields.items():
        shown = options[name].show_default
        if isinstance(field.default, str):
            assert shown == field.default
        elif field.default is not None and not isinstance(field.default, bool):
            assert float(shown) == field.default
    initialisers = set(INITIALISERS.names) - set(INITIALISERS.registered)
    optimizers = set(OPTIMIZERS.names) - set(OPTIMIZERS.registered)
    assert len(initialisers) >= 5
    assert len(optimizers) >= 5
    assert initialisers <= set(re.findall(r"[\w-]+", options["weights"].help))
    assert optimizers <= set(re.findall(r"[\w-]+", options["optimizer"].help))


def test_comma_separated_values_train_all_combinations(tmp_path):
    arguments = ("--epochs", 1, "--gain", "1.0,1.2", "--rate", "0.1,0.01", "--seed", "0,1", "--out", tmp_path / "run")
    stdout = call(*SMALL, *arguments).stdout
    runs = [result.run for result in results(tmp_path / "run")]
    assert len({(run.gain, run.rate_in, run.seed) for run in runs}) == len(runs) == 8
    assert all(run.rate_in == run.rate_out for run in runs)
    assert stdout.splitlines()[3].split() == [
        *("run", "gain", "rate_in", "seed", "epochs", "loss", "error", "test", "error", "time"),
    ]


def test_any_setting_takes_several_values_and_commas_in_parentheses_do_not_separate(tmp_path):
    several = ("--optimizer", "sgd,adam(beta1=0.8, beta2=0.99)", "--weight-decay", "0.1", "--depth", "4,5")
    call(*SMALL[:4], *SMALL[6:], *several, "--epochs", 1, "--out", tmp_path / "run")
    runs = [result.run for result in results(tmp_path / "run")]
    optimizers = ("sgd", "adam(beta1=0.8, beta2=0.99)")
    assert {(run.depth, run.optimizer, run.weight_decay) for run in runs} == set(product((4, 5), optimizers, (0.1,)))


def test_unequal_rates_of_first_and_last_layer_are_combined(tmp_path):
    call(*SMALL, "--epochs", 1, "--rate-in", "0.1,0.01", "--rate-out", "0.2", "--out", tmp_path / "run")
    runs = [result.run for result in results(tmp_path / "run")]
    assert [(run.rate_in, run.rate_out) for run in runs] == [(0.1, 0.2), (0.01, 0.2)]


def test_a_reconstruction_shows_errors_without_per_cent(tmp_path):
    arguments = ("--data", "digits", "--examples", 300, "--task", "reconstruct", "--depth", 4, "--params", 9000)
    result = call(*arguments, "--epochs", 1, "--out", tmp_path / "run")
    assert result.exit_code == 0
    assert "error" in result.stdout
    assert "%" not in result.stdout


def test_a_diverged_run_is_shown_with_its_epoch(tmp_path):
    result = call(*SMALL, "--epochs", 2, "--rate", "1e38", "--clip", "none", "--out", tmp_path / "run")
    assert "diverged in 1" in result.stdout
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"sweep.sqlite", "lock"}


def test_the_same_folder_takes_further_settings_and_keeps_what_is_done(tmp_path):
    call(*SMALL, "--epochs", 1, "--out", tmp_path / "run")
    call(*SMALL, "--epochs", 1, "--seed", "0,1", "--out", tmp_path / "run")
    assert [(result.run.seed, result.starts) for result in results(tmp_path / "run")] == [(0, 1), (1, 1)]


def test_ctrl_c_saves_and_prints_the_command_that_resumes_to_the_same_numbers(tmp_path):
    arguments = [*SMALL, "--epochs", "8", "--stop-at-zero", "--save-every", "0.1", "--out", tmp_path / "run"]
    process = started(["train", *arguments], tmp_path / "log", interrupt_after_epoch, 3)
    assert ended(process) == 130
    resume = shlex.split((tmp_path / "log").read_text().splitlines()[-1].partition("resume with: ")[2])
    assert resume[:2] == ["gradwalk", "train"]
    assert list((tmp_path / "run" / "checkpoints").glob("*.safetensors"))
    call(*resume[2:])
    call(*arguments[:-1], tmp_path / "whole")
    assert numbers(results(tmp_path / "run")) == numbers(results(tmp_path / "whole"))
    assert [result.starts for result in results(tmp_path / "run")] == [2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--depth", 1), "--depth must be greater than or equal to 2, got --depth 1"),
        (("--params", 10), "params must be at least"),
        (("--gain", "1.0,x"), "--gain must be a number, got --gain 'x'"),
        (("--gain", "1.0,"), "--gain must be one value or comma-separated values, got --gain '1.0,'"),
        (("--rate", 1, "--rate-in", 2), "--rate sets --rate-in and --rate-out, and cannot be combined with --rate-in"),
        (("--data", "cifar"), "there is no data set 'cifar'"),
        (("--activation", "rulu"), "did you mean 'relu'"),
        (("--task", "regress"), "--task must be 'classify' or 'reconstruct'"),
        (("--threads", 0), "threads must be at least 1"),
        (
            ("--device", "cuda:99"),
            "--device must be one that torch can use here, such as 'cpu', got --device 'cuda",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["train", *SMALL, "--epochs", "1", "--out", str(tmp_path / "run"), *map(str, arguments)])
    errors = capsys.readouterr().err
    assert left.value.code == 2
    assert message in errors
    assert errors.count("\n") == 1
    assert not os.path.exists(tmp_path / "run")
