"""`gradwalk train` as its user types it."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from gradwalk import cli

SMALL = ("--data", "digits", "--examples", "300", "--depth", "5", "--params", "3000")


def call(*arguments):
    return CliRunner().invoke(cli.app(), ["train", *map(str, arguments)], catch_exceptions=False)


def rows(folder):
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_it_leaves_config_versions_metrics_curve_and_network(tmp_path):
    result = call(*SMALL, "--epochs", 2, "--out", tmp_path / "run")
    assert result.exit_code == 0
    assert "a network of 5 layers, 3," in result.stdout
    found = {each.name for each in (tmp_path / "run").iterdir()}
    assert found == {"config.json", "versions.json", "metrics.csv", "curve.png", "networks", "checkpoints"}
    assert (tmp_path / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert [row["epoch"] for row in rows(tmp_path / "run")] == ["1", "2"]


def test_values_with_commas_make_a_stack_of_all_combinations(tmp_path):
    arguments = ("--epochs", 1, "--gain", "1.0,1.2", "--rate", "0.1,0.01", "--seed", "0,1", "--out", tmp_path / "run")
    result = call(*SMALL, *arguments)
    asked = json.loads((tmp_path / "run" / "config.json").read_text())["runs"]
    assert len({(each["gain"], each["rate_in"], each["seed"]) for each in asked}) == len(asked) == 8
    assert all(each["rate_in"] == each["rate_out"] for each in asked)
    assert "8 networks of 5 layers" in result.stdout


def test_unlike_rates_of_first_and_last_layer_are_combined(tmp_path):
    call(*SMALL, "--epochs", 1, "--rate-in", "0.1,0.01", "--rate-out", "0.2", "--out", tmp_path / "run")
    asked = json.loads((tmp_path / "run" / "config.json").read_text())["runs"]
    assert [(each["rate_in"], each["rate_out"]) for each in asked] == [(0.1, 0.2), (0.01, 0.2)]


def test_a_reconstruction_tells_errors_and_no_mistakes(tmp_path):
    arguments = ("--data", "digits", "--examples", 300, "--task", "reconstruct", "--depth", 4, "--params", 9000)
    result = call(*arguments, "--epochs", 1, "--out", tmp_path / "run")
    assert result.exit_code == 0
    assert "error" in result.stdout
    assert "mistakes" not in result.stdout


def test_a_diverged_run_is_named_with_its_epoch(tmp_path):
    result = call(*SMALL, "--epochs", 2, "--rate", "1e38", "--clip", 0, "--out", tmp_path / "run")
    assert "diverged in 1" in result.stdout
    assert not (tmp_path / "run" / "networks").exists()


def test_a_killed_training_goes_on_to_the_same_metrics(tmp_path):
    command = [sys.executable, "-c", "from gradwalk.cli import main; main()", "train", *SMALL, "--epochs", "40"]
    call(*SMALL, "--epochs", 40, "--out", tmp_path / "whole")
    process = subprocess.Popen([*command, "--out", str(tmp_path / "run")], stdout=subprocess.DEVNULL)
    while not (tmp_path / "run" / "metrics.csv").exists():
        time.sleep(0.01)
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    call(*SMALL, "--epochs", 40, "--out", tmp_path / "run")
    with_times = [rows(tmp_path / name) for name in ("run", "whole")]
    found, expected = ([{key: row[key] for key in row if key != "seconds"} for row in each] for each in with_times)
    assert found == expected


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    heard = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # a job in the background is deaf
    )
    code = heard + "from gradwalk.cli import main; main()"
    command = [sys.executable, "-c", code, "train", *SMALL, "--epochs", "100000", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        while not (tmp_path / "run" / "metrics.csv").exists():
            time.sleep(0.01)
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "the same command goes on from there" in said
    assert list((tmp_path / "run" / "checkpoints").glob("*.safetensors"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--depth", 1), "train: depth must be greater than or equal to 2, got depth=1"),
        (("--params", 10), "params must be at least"),
        (("--gain", "1.0,x"), "train: --gain: a number, or several with commas between, got '1.0,x'"),
        (("--data", "cifar"), "there is no data set 'cifar'"),
        (("--activation", "rulu"), "did you mean 'relu'"),
        (("--task", "regress"), "train: task must be 'classify' or 'reconstruct'"),
        (("--threads", 0), "threads must be at least 1"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, said, tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["train", *SMALL, "--epochs", "1", "--out", str(tmp_path / "run"), *map(str, arguments)])
    told = capsys.readouterr().err
    assert left.value.code == 2
    assert said in told
    assert told.count("\n") == 1
    assert "--threads" in arguments or not (tmp_path / "run").exists()


def test_a_folder_with_another_training_is_refused(tmp_path, capsys):
    call(*SMALL, "--epochs", 1, "--out", tmp_path / "run")
    with pytest.raises(SystemExit):
        cli.main(["train", *SMALL, "--epochs", "2", "--out", str(tmp_path / "run")])
    assert "holds another training" in capsys.readouterr().err
