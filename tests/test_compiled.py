"""Compiled passes: every number is right, has the same bits however the work is cut, and nothing else is written."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from helpers.interrupt import InterruptAt

from gradwalk import activation, compiled, data, register
from gradwalk.compiled.ahead import in_advance
from gradwalk.compiled.matrices import LINE
from gradwalk.compiled.requests import STREAMS, Region, Soon, planned
from gradwalk.nets import stack
from gradwalk.nets.kernels import COMPILED_FLOPS, library
from gradwalk.nets.machine_code import CompiledLibrary
from gradwalk.train import Outcome, Run, loop, train

if not compiled.available():
    pytest.skip("compiled passes take an x86 processor with AVX2 and FMA", allow_module_level=True)

UNTOUCHED = 7.0  # in memory that no operation may write
# rows, terms, columns: around the sizes of blocks, vectors and pieces, and what deep networks have
SIZES = [(1, 1, 1), (3, 2, 5), (7, 9, 15), (8, 16, 16), (9, 17, 24), (37, 33, 49), (16, 160, 56), (100, 161, 64)]
SIZES += [(100, 88, 88), (100, 177, 177), (20, 784, 30), (100, 350, 10), (13, 481, 97)]
LIBRARY = CompiledLibrary()
NOWHERE = Region(0, 0, 0, 0)
# address, bytes from row to row, rows, bytes of a row, terms of a block
REGIONS = [
    (0, 64, 22, 4, 5),
    (4, 1424, 356, 192, 119),
    (60, 352, 100, 160, 88),
    (48, 708, 177, 4, 100),
    (20, 100, 9, 8, 1),
]


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def framed(networks: int, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return memory, and a part of it for matrices with something on all sides."""
    memory = torch.full((networks, rows + 2, columns + 3), UNTOUCHED)
    return memory, memory[:, 1:-1, 1:-2]


def run(steps: list) -> None:
    for step in LIBRARY.joined(steps):
        step()


def assert_close(out: torch.Tensor, expected: torch.Tensor, terms: int) -> None:
    """Compare with a product in double precision: the error of a sum grows with the number of its terms."""
    scale = expected.abs().max().item()
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=2e-7 * terms**0.5 * max(scale, 1.0))


def assert_untouched(memory: torch.Tensor, part: torch.Tensor) -> None:
    assert (memory == UNTOUCHED).sum() == memory.numel() - part.numel()


class TestRequests:
    """Of lines of memory in advance: nothing that is asked for changes a result, so that only these tests see it."""

    @staticmethod
    def lines(soon: Soon, first: int, after: int, columns: int, terms: int) -> set[int]:
        """Return the cache lines that a column of blocks asks for, one per term and block."""
        streams = np.zeros((STREAMS, 2), np.int64)
        count = planned(streams, NOWHERE, NOWHERE, soon, first, after, columns, terms)
        return {(start + step * term) // LINE for start, step in streams[:count].tolist() for term in range(terms)}

    @pytest.mark.parametrize(("start", "step", "rows", "width", "terms"), REGIONS)
    def test_every_line_of_a_region_is_asked_for(self, start, step, rows, width, terms):
        region = Region(start, step, rows, width)
        needed = {byte // LINE for row in range(rows) for byte in range(start + row * step, start + row * step + width)}
        assert needed <= self.lines(Soon(NOWHERE, region, NOWHERE, False, False), 0, 100, 100, terms)

    def test_the_columns_of_blocks_of_a_product_share_a_region(self):
        soon = Soon(NOWHERE, NOWHERE, Region(4096, LINE, 301, 4), False, False)
        shares = [self.lines(soon, first, after, 100, 88) for first, after in [(0, 48), (48, 96), (96, 100)]]
        assert set.union(*shares) >= set(range(64, 64 + 301))
        assert max(map(len, shares)) < 301

    @pytest.mark.parametrize("width", [32, 200])
    def test_a_product_asks_for_what_the_next_one_uses(self, width):
        h = [drawn(2, 10, width, seed=seed) for seed in range(3)]
        weights, bias = drawn(3, 2, width, width), drawn(2, 1, width)
        steps = LIBRARY.affine(h[0], weights[0], bias, h[1]) + LIBRARY.affine(h[1], weights[1], bias, h[2])
        (first, then) = in_advance(steps)
        whole = [LINE, -(-4 * width * width // LINE), 4]
        assert first[:5] == [weights[1].data_ptr(), 4 * width * width, *(whole if width == 32 else [800, 200, 192])]
        assert first[5] == h[2].data_ptr()
        assert [*first[-2:]] == [int(width == 200), 0]
        assert then[0] == weights[0, 1].data_ptr(), "after the last product comes the first one of the next network"

    def test_after_a_gradient_and_before_a_slope_what_they_read_is_asked_for(self):
        width = 32
        h, delta, weights = drawn(4, 1, 10, width), drawn(4, 1, 10, width, seed=1), drawn(4, 1, width, width)
        f = LIBRARY.pointwise(activation("tanh"))
        steps = LIBRARY.backward(delta[3], weights[3], delta[2]) + LIBRARY.slope(f, delta[2], h[2], None)
        steps += LIBRARY.backward(delta[2], weights[2], delta[1]) + LIBRARY.slope(f, delta[1], h[1], None)
        steps += LIBRARY.gradients(h[:1], delta[1:2], drawn(1, 1, width, width), drawn(1, 1, 1, width), drawn(1, 1))
        more = [each[10] for each in in_advance(steps)]
        assert more[0] == h[2].data_ptr(), "which the slope reads"
        assert more[2] == h[1].data_ptr(), "which the slope reads, before the gradient"


class TestProducts:
    @pytest.mark.parametrize(("rows", "terms", "columns"), SIZES)
    def test_a_layer_is_right_and_nothing_else_is_written(self, rows, terms, columns):
        h, weight, bias = drawn(2, rows, terms), drawn(2, terms, columns, seed=1), drawn(2, 1, columns, seed=2)
        memory, out = framed(2, rows, columns)
        run(LIBRARY.affine(h, weight, bias, out))
        assert_close(out, h.double() @ weight.double() + bias, terms)
        assert_untouched(memory, out)

    @pytest.mark.parametrize(("rows", "terms", "columns"), SIZES)
    def test_the_way_back_is_right_and_nothing_else_is_written(self, rows, terms, columns):
        delta, weight = drawn(2, rows, terms), drawn(2, columns, terms, seed=1)
        memory, out = framed(2, rows, columns)
        run(LIBRARY.backward(delta, weight, out))
        assert_close(out, delta.double() @ weight.double().mT, terms)
        assert_untouched(memory, out)

    @pytest.mark.parametrize(("fan_in", "rows", "fan_out"), SIZES)
    def test_gradients_sums_and_norms_are_right_and_nothing_else_is_written(self, fan_in, rows, fan_out):
        h, delta = drawn(3, 2, rows, fan_in), drawn(3, 2, rows, fan_out, seed=1)
        memory = torch.full((3, 2 * fan_in * fan_out + 16), UNTOUCHED)
        weights = memory[:, 8:-8].view(3, 2, fan_in, fan_out)
        biases, norms = torch.empty(3, 2, 1, fan_out), torch.empty(3, 2)
        run(LIBRARY.gradients(h, delta, weights, biases, norms))
        exact = h.double().mT @ delta.double()
        assert_close(weights, exact, rows)
        assert_close(biases, delta.double().sum(2, keepdim=True), rows)
        torch.testing.assert_close(
            norms, torch.linalg.vector_norm(weights.double(), dim=(2, 3)).float(), rtol=1e-6, atol=0
        )
        assert_untouched(memory, weights)

    @pytest.mark.parametrize(("rows", "terms", "columns"), SIZES)
    def test_a_part_has_the_bits_of_the_whole(self, rows, terms, columns):
        h, weight, bias = drawn(1, rows, terms), drawn(1, terms, columns, seed=1), drawn(1, 1, columns, seed=2)
        whole, parts = torch.empty(1, rows, columns), torch.empty(1, rows, columns)
        run(LIBRARY.affine(h, weight, bias, whole))
        for row in [(0, rows // 3), (rows // 3, rows)]:
            for column in [(0, columns // 2), (columns // 2, columns)]:
                i, j = slice(*row), slice(*column)
                if parts[:, i, j].numel():
                    run(LIBRARY.affine(h[:, i], weight[:, :, j], bias[:, :, j], parts[:, i, j]))
        assert torch.equal(whole, parts)

    def test_a_sum_begins_with_the_bias_and_takes_its_terms_in_turn(self):
        h = torch.tensor([[[1.0, 1.0, -1.0] * 100]])
        weight = torch.tensor([2.0**24, 1.0, 2.0**24] * 100)[None, :, None]
        out = torch.empty(1, 1, 1)
        run(LIBRARY.affine(h, weight, torch.zeros(1, 1, 1), out))
        assert out.item() == 0.0  # each 1 is lost beside 2^24; any other order keeps some
        run(LIBRARY.affine(h, weight, torch.full((1, 1, 1), 5.0), out))
        assert out.item() == 4.0  # 2^24 + 5 is 2^24 + 4 in single precision

    def test_a_product_is_rounded_once(self):
        x = 1 + 2**-12
        out = torch.empty(1, 1, 1)
        run(LIBRARY.affine(*(torch.full((1, 1, 1), value) for value in (x, x, -1.0)), out))
        assert out.item() == float(np.float32(x * x - 1))  # x * x in single precision would have lost 2^-24

    def test_numbers_that_are_not_finite_stay_where_they_belong(self):
        h, weight, out = drawn(1, 10, 20), drawn(1, 20, 30, seed=1), torch.empty(1, 10, 30)
        h[0, 3, 4], weight[0, 7, 5] = torch.nan, torch.inf
        run(LIBRARY.affine(h, weight, torch.zeros(1, 1, 30), out))
        expected = torch.ones(10, 30, dtype=bool)
        expected[3], expected[:, 5] = False, False
        assert torch.equal(out[0].isfinite(), expected)


class TestElementwise:
    def test_tanh_has_single_precision_everywhere(self):
        a = torch.cat([torch.logspace(-37, 4, 300_001, dtype=torch.float64), torch.linspace(0, 10, 300_001)]).float()
        a = torch.cat([a, -a])
        h = a.clone()
        LIBRARY.pointwise(activation("tanh")).forward_(h)
        exact = np.tanh(a.double().numpy())
        units = np.abs(h.double().numpy() - exact) / np.spacing(np.abs(exact).astype(np.float32))
        assert units.max() < 5
        assert units.mean() < 0.7
        assert h.abs().max() == 1
        assert (h[a.abs() > 9.02].abs() == 1).all()

    @pytest.mark.parametrize("name", ["tanh", "relu", "leaky_relu(0.2)"])
    def test_ends_of_the_line(self, name):
        a = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1e-42, -1e38] * 9)
        h, delta = a.clone(), torch.ones_like(a)
        form, exact = LIBRARY.pointwise(activation(name)), activation(name)
        form.forward_(h)
        form.backward_(delta, h, None)
        torch.testing.assert_close(h.numpy(), exact.f(a.double().numpy()).astype(np.float32), equal_nan=True)
        finite = ~a.isnan()
        slopes = exact.derivative(a.double().numpy())
        np.testing.assert_allclose(delta[finite], slopes[finite], atol=1e-6)

    def test_gaps_between_rows_are_refused(self):
        with pytest.raises(AssertionError, match="gaps between rows"):
            run(LIBRARY.forward(LIBRARY.pointwise(activation("tanh")), drawn(1, 5, 9)[:, :, :8]))

    @pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e18, 1e30])
    @pytest.mark.parametrize("count", [1, 63, 64, 65, 1000])
    def test_norms_of_any_size(self, scale, count):
        weights = (drawn(1, 1, 1, count) * scale).contiguous()
        norms, biases = torch.empty(1, 1), torch.empty(1, 1, 1, count)
        gradient = weights.clone()
        steps = LIBRARY.gradients(torch.ones(1, 1, 1, 1), gradient, torch.empty_like(weights), biases, norms)
        run(steps)
        expected = torch.linalg.vector_norm(weights.double())
        assert norms.item() == pytest.approx(expected.item(), rel=1e-6)
        assert torch.equal(biases, gradient)


# Training.

EXAMPLES = 250


@pytest.fixture(scope="module")
def digits() -> data.Dataset:
    return data.load("digits", examples=EXAMPLES)


@pytest.fixture
def _threads_for_the_smallest(monkeypatch):
    monkeypatch.setattr(loop, "THREAD_FLOPS", 1.0)
    monkeypatch.setattr(loop, "HELPED_FLOPS", 1.0)
    monkeypatch.setattr(stack, "THREAD_FLOPS", 1.0)


def runs(count: int = 3, **changes) -> list[Run]:
    settings = {"data": "digits", "examples": EXAMPLES, "depth": 6, "width": 23, "epochs": 3, "rate_in": 0.1}
    settings |= {"gain": 1.2, "activation": "tanh", "rate_out": 0.1} | changes
    return [Run(**settings, seed=seed) for seed in range(count)]


def parameters(outcome: Outcome) -> list[torch.Tensor]:
    return [*outcome.state.weights, *outcome.state.biases]


def assert_same(outcomes: list[Outcome], expected: list[Outcome]) -> None:
    for ours, theirs in zip(outcomes, expected, strict=True):
        assert all(torch.equal(*pair) for pair in zip(parameters(ours), parameters(theirs), strict=True))
        assert [epoch.train_loss for epoch in ours.epochs] == [epoch.train_loss for epoch in theirs.epochs]


OWN = "test bent"


@pytest.mark.parametrize("name", ["tanh", "relu", "leaky_relu(0.3)", "gelu", "tanh@0.8", "relu*2", "linear", OWN])
def test_training_gives_the_results_of_torch_alone(digits, name):
    if name == OWN:
        register(OWN, lambda a: a + a**3 / 30, lambda a: 1 + a**2 / 10)
    given = {"activation": name, "rate_in": 0.03, "rate_out": 0.03, "clip": 1.0}
    for ours, theirs in zip(
        train(runs(2, **given), digits, kernels="compiled"),
        train(runs(2, **given), digits, kernels="torch"),
        strict=True,
    ):
        assert ours.last.train_loss == pytest.approx(theirs.last.train_loss, rel=1e-4)
        for own, other in zip(parameters(ours), parameters(theirs), strict=True):
            torch.testing.assert_close(own, other, rtol=1e-3, atol=3e-5)


@pytest.mark.usefixtures("_threads_for_the_smallest")
class TestSameBits:
    @pytest.mark.parametrize("name", ["tanh", "gelu"])
    def test_alone_in_a_stack_and_on_any_number_of_threads(self, digits, name):
        together = train(runs(3, activation=name), digits, kernels="compiled", threads=1)
        for threads in (2, 3):
            assert_same(train(runs(3, activation=name), digits, kernels="compiled", threads=threads), together)
            alone = [train([each], digits, kernels="compiled", threads=threads)[0] for each in runs(3, activation=name)]
            assert_same(alone, together)

    def test_after_an_interruption(self, digits, tmp_path):
        long = runs(2, epochs=40)
        expected = train(long, digits, kernels="compiled", threads=1)
        with pytest.raises(KeyboardInterrupt):
            train(long, digits, kernels="compiled", threads=2, folder=tmp_path, watcher=InterruptAt(4))
        assert_same(train(long, digits, kernels="compiled", threads=2, folder=tmp_path), expected)

    def test_a_wide_network(self, digits):
        wide = runs(2, width=411, depth=3, epochs=1)
        together = train(wide, digits, kernels="compiled", threads=1)
        assert_same(train(wide[:1], digits, kernels="compiled", threads=3), together[:1])


def test_a_network_that_diverges_is_noticed(digits):
    (outcome,) = train(runs(1, activation="relu", rate_in=1e30, rate_out=1e30, clip=None), digits, kernels="compiled")
    assert outcome.diverged == 1


# Which kernels are taken.


class TestChoice:
    def test_large_networks_are_computed_by_compiled_code_on_a_cpu(self):
        width = 100
        layers = COMPILED_FLOPS / (2 * 100 * width * (width + 1))
        for depth, name in ((int(layers) - 1, "numpy"), (int(layers) + 2, "compiled")):
            assert library("auto", "cpu", (width,) * (depth + 1), 100).name == name
        assert library("auto", "cuda", (width,) * 100, 100).name == "torch"

    def test_a_training_takes_them(self, digits, monkeypatch):
        large, taken = runs(1, depth=30, width=60, epochs=1), []
        monkeypatch.setattr("gradwalk.compiled.programs.Program.__call__", lambda program: taken.append(program))
        train(large, digits)
        assert taken

    @pytest.mark.parametrize("why", ["no Numba", "one that cannot be imported", "an old processor"])
    def test_without_them_numpy_computes(self, why, monkeypatch):
        if why == "no Numba":
            monkeypatch.setattr(compiled, "find_spec", lambda name: None)
        elif why == "an old processor":
            monkeypatch.setattr("gradwalk.compiled.vectors.SERVES", False)
        else:
            monkeypatch.setitem(sys.modules, "gradwalk.compiled.vectors", None)
        monkeypatch.setattr(compiled, "available", compiled.available.__wrapped__)
        assert library("auto", "cpu", (100,) * 50, 100).name == "numpy"
        with pytest.raises(ValueError, match=r'^train: kernels="compiled" takes Numba .* an x86 processor with AVX2'):
            library("compiled", "cpu", (100,) * 50, 100)

    def test_kernels_that_are_not_to_be_had_are_refused_before_anything_is_drawn(self, digits, monkeypatch):
        monkeypatch.setattr(loop, "member", None)
        monkeypatch.setattr(compiled, "available", lambda: False)
        with pytest.raises(ValueError, match='kernels="compiled" takes Numba'):
            train(runs(1), digits, kernels="compiled")

    @pytest.mark.parametrize("kernels", ["compiled", "numpy"])
    def test_they_are_for_a_cpu(self, kernels):
        with pytest.raises(ValueError, match=f'kernels must be "auto" or "torch" on cuda, got kernels=\'{kernels}\''):
            library(kernels, "cuda", (100,) * 50, 100)


# Other processors.

DIGEST = """
import hashlib, torch
from gradwalk import compiled, data
from gradwalk.compiled.vectors import LANES
from gradwalk.train import Run, train
given = dict(data="digits", examples=250, depth=5, width=41, epochs=2, rate_in=0.1, rate_out=0.1, gain=1.2)
(outcome,) = train([Run(**given, activation="relu")], data.load("digits", examples=250), kernels="compiled", threads=1)
print(LANES, hashlib.sha256(b"".join(each.numpy().tobytes() for each in outcome.state.weights)).hexdigest())
"""


def elsewhere(code: str, **environment: str) -> str:
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_vectors_of_half_the_length_give_the_same_bits():
    features = "+avx,+avx2,+fma,+sse4.1,+sse4.2,+sse3,+ssse3,+popcnt,+bmi,+bmi2"
    lanes, narrow = elsewhere(DIGEST, NUMBA_CPU_NAME="haswell", NUMBA_CPU_FEATURES=features).split()
    assert (lanes, narrow) == ("8", elsewhere(DIGEST).split()[1])


def test_a_processor_without_avx2_is_not_served():
    code = "from gradwalk import compiled; print(compiled.available())"
    assert elsewhere(code, NUMBA_CPU_NAME="nehalem", NUMBA_CPU_FEATURES="+sse4.2") == "False"
