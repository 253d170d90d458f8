"""Hostile, huge and odd input is refused in one sentence, or answered rightly, in little time and memory."""

import io
import math
import os
import tarfile
import zipfile
from fractions import Fraction

import numpy as np
import pytest
from helpers.small_sweep import SMALL
from helpers.toy_speech import sample_files
from scipy.special import digamma, gammaln, polygamma

import gradwalk as gw
from gradwalk import nets

HUGE = 10**400


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gw.q_map("relu", HUGE), "q_map: q must be positive and finite, got q=inf"),
        (lambda: gw.q_map("relu", Fraction(HUGE)), "q_map: q must be positive and finite, got q=inf"),
        (lambda: gw.q_map("relu", 1.0, 1e200), "q_map: gain must lie between 1e-09 and 1e"),
        (lambda: gw.chi("relu", 1.0, 1e200), "chi: gain must lie between"),
        (lambda: gw.fixed_point("tanh", 1e200), "fixed_point: gain must lie between"),
        (
            lambda: gw.correlation_map("elu(1e200)", 0.5),
            "correlation_map: the moments of elu",
        ),
        (lambda: gw.correlation_slope("elu(1e200)"), "correlation_slope: the moments of elu"),
        (lambda: gw.correlation_fixed_point("elu(1e200)"), "correlation_map: the moments of elu"),
        (lambda: gw.max_depth("relu", 100, spread=1e200), "max_depth: spread must lie between 1e-06 and 1e"),
        (lambda: gw.min_width("tanh", 10, spread=1e-200), "min_width: spread must lie between 1e-06 and 1e"),
        (lambda: gw.min_width("relu", 10, spread=1e-6), "min_width: no width up to 10,000,000 keeps relu within"),
        (lambda: gw.gain("relu", b"abc"), "gain: width must be a whole number or a sequence of them, got width=b'abc'"),
        (lambda: gw.gain("relu", 10**5000), "gain: width must be at most 10,000,000, got width="),
        (
            lambda: gw.gain("relu", range(1, 200_000)),
            "gain: width must list at most 1,000 different widths, got 199",
        ),
        (lambda: gw.gain("relu", range(HUGE)), "gain: width must have at most 10,000,001 values"),
        (lambda: gw.activation("relu" + "*2" * 3000), "activation: a name must have at most 200 characters, got 6,004"),
        (lambda: gw.activation("relu" + "*2" * 20), "scaled: an activation can be scaled and leaked 8 times"),
        (lambda: gw.activation("tanh" + "*2@0.5" * 6), "scaled: an activation can be scaled and leaked 8 times"),
        (lambda: gw.activation("a" + " " * 3000 + ")"), "activation: a name must have at most 200 characters"),
        (lambda: gw.activation(["relu"]), "activation: must be a name or a gradwalk.Activation"),
        (
            lambda: gw.solve_gain("tanh", [10**7] * 3 + [5]),
            "solve_gain: networks of 30,000,005 units take long to sample",
        ),
        (lambda: gw.solve_gain("tanh", 10**7, 3), "solve_gain: networks of 40,000,000 units take long to sample; pass"),
        (lambda: gw.Activation("odd", np.tanh, np.cos, range(HUGE)), "Activation: there can be at most 1,000 kinks"),
        (lambda: gw.register("odd", np.tanh, np.array([])), "Activation: derivative must be a function"),
        (lambda: gw.residual(gw.dense("relu"), scale=HUGE), "residual: scale must be positive and finite"),
    ],
)
def test_numbers_and_names_that_no_function_can_take_are_refused_in_one_sentence(call, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nets.stack_bytes("relu", ("relu",), 1, 1), "stack_bytes: widths must be a whole number"),
        (lambda: nets.stack_bytes(3, ("relu",), 1, 1), "stack_bytes: widths must be a sequence of whole numbers"),
        (lambda: nets.stack_bytes((3, 2), None, 1, 1), "stack_bytes: activations must list a name for each of the 1"),
        (lambda: nets.stack_bytes((3, 2), ("relu",), 1, "x"), "stack_bytes: batch must be a whole number"),
    ],
)
def test_arguments_of_other_types_are_refused_in_one_sentence(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_a_loss_that_is_no_function_is_refused():
    torch = pytest.importorskip("torch")
    from gradwalk.torch import probe

    with pytest.raises(TypeError, match=r"probe: loss_fn must be a function of the model's output, got loss_fn='mse'"):
        probe(torch.nn.Linear(2, 2), torch.ones(1, 2), "mse")


def test_an_array_without_axes_is_a_number():
    assert gw.gain("relu", np.array(50)) == gw.gain("relu", 50)
    assert gw.q_map("relu", np.array(2.0)) == gw.q_map("relu", 2.0)
    assert gw.simulate("relu", 5, 4, gain=np.array(1.4), walks=2, rng=0).depth == 4


def with_one_slope(slope, n):
    """Drift and variance of leaky_relu with a slope so small that it counts only if no unit is active."""
    active = np.arange(n + 1)
    share = np.exp(gammaln(n + 1) - gammaln(active + 1) - gammaln(n - active + 1) - n * math.log(2))
    counted = np.where(active > 0, active, n) / 2
    means = digamma(counted) + math.log(2 / n) + np.where(active > 0, 0.0, 2 * math.log(slope))
    drift = share @ means
    return drift, share @ polygamma(1, counted) + share @ (means - drift) ** 2


@pytest.mark.parametrize("slope", [1e-100, 1e-200, 1e-300])
def test_a_slope_whose_square_underflows_has_the_right_step(slope):
    assert gw.step(f"leaky_relu({slope})", 10) == pytest.approx(with_one_slope(slope, 10), rel=1e-9)


def test_random_walk_refuses_what_its_dtype_cannot_hold():
    torch = pytest.importorskip("torch")
    from gradwalk.torch import random_walk_

    with pytest.raises(ValueError, match=r"standard deviation 5\.77e\+05 leave the range of torch\.float16"):
        random_walk_(torch.empty(3, 3, dtype=torch.float16), gain=1e6)
    with pytest.raises(ValueError, match=r"leave the range of torch\.float32"):
        random_walk_(torch.empty(3, 3), gain=1e-45, weights="orthogonal")
    with pytest.raises(TypeError, match=r"generator must be a torch\.Generator, got Generator"):
        random_walk_(torch.empty(3, 3), generator=np.random.default_rng(0))


# Runs, specs and data


def test_runs_have_bounds():
    pytest.importorskip("torch")
    from gradwalk.train import checked_run

    for name in ("depth", "batch", "epochs", "examples", "deepest"):
        with pytest.raises(ValueError, match=f"train: {name} must be less than or equal to 10*, got {name}=10"):
            checked_run("train", **{name: 10**9})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("depth = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("depth = " + "9" * 5000, "not TOML: "),
        ("x" * 5000 + " = 1", "there is no setting"),
        ("[[runs]]\nname = 'a'", "name must stand at the top of a spec, and once"),
        ("[[runs]]\n[[runs.runs]]\ndepth = 3", "runs must stand at the top of a spec, and once"),
        ("nam = 'a'", r"there is no setting 'nam'; did you mean 'name'\?"),
    ],
)
def test_odd_specs_are_refused_in_one_sentence(text, message):
    pytest.importorskip("torch")
    from gradwalk.sweep import Spec

    with pytest.raises(ValueError, match=f"^sweep: .*{message}") as caught:
        Spec.load(text)
    assert "\n" not in str(caught.value)


def test_a_spec_may_begin_with_a_byte_order_mark_and_must_not_be_huge(tmp_path):
    pytest.importorskip("torch")
    from gradwalk.sweep import Spec

    path = tmp_path / "mine.toml"
    path.write_text(SMALL, "utf-8-sig")
    assert Spec.load(path).count == 4
    with path.open("wb") as file:
        file.truncate(10**10)  # a sparse file of 10 GB
    with pytest.raises(ValueError, match=r"mine\.toml: a spec must have at most 10,000,000 bytes, got 10,000,000,000"):
        Spec.load(path)


@pytest.mark.parametrize("name", ["\0", "\ud800"])
def test_a_name_that_no_file_can_have_is_refused(name):
    pytest.importorskip("torch")
    from gradwalk.sweep import Spec

    with pytest.raises(ValueError, match=r"^sweep: .*: not a path: "):
        Spec.load(name)


@pytest.mark.parametrize("device", ["foo", "", "cuda:99", "xla", "cpu:x", 3.5])
def test_a_device_that_is_none_is_refused(device):
    pytest.importorskip("torch")
    from gradwalk.nets.device import check_device

    with pytest.raises(ValueError, match="device must be one that torch can use here"):
        check_device(device)


def test_the_folder_of_an_unknown_user_is_refused(monkeypatch):
    from gradwalk import data

    monkeypatch.setenv("GRADWALK_DATA", "~nouser/x")
    with pytest.raises(FileNotFoundError, match="data: GRADWALK_DATA must name a folder, got GRADWALK_DATA="):
        data.where()
    with pytest.raises(FileNotFoundError, match="data: folder must name a folder, got folder='~nouser/x'"):
        data.load("mnist", folder="~nouser/x")


def huge_tar(path, name, pax=False):
    """A gzipped archive of a few kilobytes whose one file, or whose header, claims 20 MB of zeros."""
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo(name)
        if pax:
            member.pax_headers = {"comment": "x" * 20_000_000}
        else:
            member.size = 20_000_000
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    return path


def test_the_size_of_a_file_in_an_archive_is_checked_before_it_is_read(tmp_path):
    from gradwalk.data import corpus

    name = "dr1-mcpm0/sa1.wav"
    path = huge_tar(tmp_path / "timit.tar.gz", name)
    with pytest.raises(ValueError, match=rf"data: {path}: {name} must have at most 16,000,000 bytes, got 20,000,000"):
        list(corpus.files(path))
    path = huge_tar(tmp_path / "timit.tgz", name, pax=True)
    with pytest.raises(ValueError, match=rf"data: {path}: a header must have at most 16,000,000 bytes, got 20,"):
        list(corpus.files(path))
    path = tmp_path / "timit.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, bytes(20_000_000))
    with pytest.raises(ValueError, match=rf"data: {path}: {name} must have at most 16,000,000 bytes, got 20,000,000"):
        list(corpus.files(path))


def test_the_size_of_a_file_is_checked_before_it_is_read(tmp_path):
    from gradwalk import data
    from gradwalk.data import corpus

    folder = tmp_path / "dr1-mcpm0"
    folder.mkdir()
    for name in sample_files():
        if "mcpm0" in name:
            (tmp_path / name).touch()
    os.truncate(folder / "sa1.wav", 10**10)
    with pytest.raises(ValueError, match=r"sa1\.wav must have at most 16,000,000 bytes, got 10,000,000,000"):
        list(corpus.files(tmp_path))
    images = tmp_path / "train-images-idx3-ubyte"
    images.touch()
    os.truncate(images, 10**10)
    with pytest.raises(ValueError, match=r"is not the known train-images-idx3-ubyte: it has 10,000,000,000 bytes"):
        data.load("mnist", folder=tmp_path)


def test_control_characters_of_an_error_do_not_reach_the_terminal(capsys):
    pytest.importorskip("typer")
    from gradwalk import cli

    with pytest.raises(SystemExit):
        cli.main(["gain", "re\x1b[31mlu\x07", "--width", "5"])
    assert capsys.readouterr().err.removesuffix("\n").isprintable()


def test_a_session_records_the_commit_of_the_code(tmp_path):
    pytest.importorskip("torch")
    from gradwalk import versions
    from gradwalk.sweep import Store
    from gradwalk.sweep.writer import Writer

    Writer(tmp_path).close()
    with Store(tmp_path) as store:
        (session,) = store.sessions()
    assert session.versions["gradwalk"] == gw.__version__
    assert session.versions.get("commit") == versions.commit()
