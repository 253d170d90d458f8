"""Networks: widths by the paper's rule, initial weights, and a stack whose gradient is that of torch.autograd."""

import copy
import ctypes
import mmap
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from gradwalk import activations, gain, nets
from gradwalk.nets import (
    Gains,
    Stack,
    Updater,
    classifier_widths,
    footprint,
    memory,
    parameter_count,
    parse_optimizer,
    products,
    sequential,
)
from gradwalk.nets.crew import run


def random_stack(widths, names, networks, loss, seed=0, batch=20, precision=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    shapes = list(pairwise(widths))
    weights = [torch.randn(networks, a, b, generator=generator) * 1.2 / a**0.5 for a, b in shapes]
    biases = [torch.randn(networks, 1, b, generator=generator) * 0.1 for _, b in shapes]
    layers = [(w.to(precision), b.to(precision)) for w, b in zip(weights, biases, strict=True)]
    return Stack(layers, widths, names, loss, batch)


def minibatch(widths, loss, rows=20, seed=1):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, widths[0], generator=generator)
    if isinstance(loss, nets.SquaredError):
        return x, torch.randn(rows, widths[-1], generator=generator)
    return x, torch.randint(0, widths[-1], (rows,), generator=generator)


def exported(stack, index, names):
    weights, biases = stack.network(index)
    return sequential(weights, biases, names)


class TestWidths:
    def test_the_widths_that_the_paper_prints_come_out(self):
        assert classifier_widths(784, 10, 512, 4e6)[1] == 88
        assert classifier_widths(784, 10, 1000, 62e6)[1] == 249
        assert nets.autoencoder_widths(784, 4, 16e6) == (784, 9816, 30, 9816, 784)

    def test_the_two_widths_that_the_paper_has_wrong_come_out_right(self):
        assert parameter_count([784, *[1228] * 3, 10]) == 3_994_694  # E6: 1228 is below the limit
        assert classifier_widths(784, 10, 4, 4e6)[1] == 1229
        deep = nets.autoencoder_widths(784, 128, 16e6)  # E7
        assert (deep[1], parameter_count(deep)) == (597, 16_732_774)
        assert set(np.diff(deep[1:65])) == {-9}
        assert deep[1:64] == deep[65:128][::-1]

    @given(st.integers(1, 50), st.integers(1, 20), st.integers(2, 40), st.integers(2_000, 10**7))
    def test_the_width_is_the_first_above_the_limit(self, inputs, classes, depth, params):
        widths = classifier_widths(inputs, classes, depth, params)
        assert len(widths) == depth + 1
        assert (widths[0], widths[-1]) == (inputs, classes)
        assert parameter_count(widths) > params
        narrower = [inputs, *[widths[1] - 1] * (depth - 1), classes]
        assert parameter_count(narrower) <= params

    def test_the_parameters_are_those_that_torch_counts(self):
        widths = (7, 5, 3, 2)
        model = nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(widths)))
        assert parameter_count(widths) == sum(each.numel() for each in model.parameters())

    def test_no_layer_of_an_autoencoder_is_narrower_than_its_code(self):
        widths = nets.autoencoder_widths(784, 16, 5e5)
        assert min(widths) == widths[8] == 30
        assert len(set(np.diff(widths[8:16]))) == 1

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: classifier_widths(784, 10, 1, 4e6), "classifier_widths: depth must be at least 2, got depth=1"),
            (lambda: classifier_widths(784, 10, 100, 500), "classifier_widths: params must be at least 1,000"),
            (lambda: classifier_widths(784, 10, 4, float("nan")), "params must be positive and finite"),
            (lambda: nets.autoencoder_widths(784, 5, 4e6), "depth must be even and at least 4, got depth=5"),
            (lambda: nets.autoencoder_widths(784, 4, 100), "autoencoder_widths: params must be at least"),
        ],
    )
    def test_an_impossible_network_is_refused_in_one_sentence(self, call, message):
        with pytest.raises(ValueError, match=message.replace("(", r"\(")):
            call()


def walk(widths, gains, seed, weights="gaussian"):
    """Return the initial weights (in, out) of a random walk."""
    names = ["tanh"] * (len(widths) - 2) + ["linear"]
    return [weight for weight, _ in nets.initial_layers(weights, widths, names, seed, gains=gains)]


class TestInitialWeights:
    widths = (300, 200, 100, 400, 10)

    @pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
    def test_each_layer_has_its_own_gain_over_the_root_of_its_fan_in(self, weights):
        drawn = walk(self.widths, Gains(0.5, 1.3, 2.0), 0, weights)
        for weight, fan_in, g in zip(drawn, self.widths, (0.5, 1.3, 1.3, 2.0), strict=False):
            assert weight.std().item() * fan_in**0.5 == pytest.approx(g, rel=0.05)
            assert abs(weight.mean().item()) < 4 * g / fan_in**0.5 / weight.numel() ** 0.5

    def test_orthogonal_weights_are_orthogonal(self):
        weight = walk((50, 50, 50), Gains(1.0, 1.0, 1.0), 0, "orthogonal")[0]
        torch.testing.assert_close(weight @ weight.T, torch.eye(50), atol=1e-5, rtol=0)

    def test_a_seed_means_the_same_weights_and_the_global_seed_is_left_alone(self):
        torch.manual_seed(3)
        before = torch.get_rng_state()
        first, again, other = (walk(self.widths, Gains(1.0, 1.0, 1.0), seed) for seed in (5, 5, 6))
        assert torch.equal(torch.get_rng_state(), before)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
        assert not torch.equal(first[0], other[0])

    def test_the_default_gain_is_the_unbiased_one_for_the_steps_the_gradient_takes(self):
        tanh = activations.activation("tanh")
        gains = nets.default_gains(tanh, (784, *[50] * 20, 10))
        assert gains == Gains(1.0, gain("tanh", 50, 20), gain("tanh", 50, 20))


class TestGradient:
    widths = (12, 9, 7, 9, 4)

    @pytest.mark.parametrize("loss", [nets.CrossEntropy(), nets.SquaredError()], ids=["entropy", "squared"])
    @pytest.mark.parametrize(
        "name", ["linear", "relu", "leaky_relu(0.2)", "leaky_relu(-0.3)", "tanh", "elu", "selu", "gelu", "erf", "sin"]
    )
    def test_it_is_that_of_autograd_for_every_network(self, name, loss):
        names = [name] * 3 + ["linear"]
        stack = random_stack(self.widths, names, 3, loss)
        x, target = minibatch(self.widths, loss, rows=17)  # fewer than the batch the stack has room for
        losses = stack.gradient(x, target)
        torch_loss = nn.CrossEntropyLoss() if isinstance(loss, nets.CrossEntropy) else nn.MSELoss()
        for index in range(3):
            model = exported(stack, index, names)
            expected = torch_loss(model(x), target)
            expected.backward()
            assert losses[index].item() == pytest.approx(expected.item(), rel=1e-5)
            linears = [each for each in model if isinstance(each, nn.Linear)]
            for d, linear in enumerate(linears):
                assert relative(stack.weight_gradients[d][index].T, linear.weight.grad) < 1e-5
                assert relative(stack.bias_gradients[d][index, 0], linear.bias.grad) < 1e-5

    def deep(self, precision):
        """Return the relative errors of the gradient of a 200-layer network, ours and autograd's, against doubles."""
        widths, names = (20, *[50] * 199, 5), ["tanh"] * 199 + ["linear"]
        stack = random_stack(widths, names, 2, nets.CrossEntropy(), precision=precision)
        x, target = minibatch(widths, stack.loss)
        stack.gradient(x.to(precision), target)
        ours = [each[1].T.double() for each in stack.weight_gradients]
        plain = exported(stack, 1, names).to(precision)
        exact = copy.deepcopy(plain).double()
        theirs, best = autograd(plain, x.to(precision), target), autograd(exact, x.double(), target)
        return [max(relative(a, b) for a, b in zip(side, best, strict=True)) for side in (ours, theirs)]

    def test_a_large_layers_gradient_made_some_rows_at_a_time_is_that_of_autograd_alone_or_stacked(self):
        widths, names, loss = (800, 1100, 7), ["tanh", "linear"], nets.CrossEntropy()
        stack, alone = (random_stack(widths, names, 3, loss) for _ in range(2))
        alone.keep([1])
        x, target = minibatch(widths, loss)
        stack.gradient(x, target)
        alone.gradient(x, target)
        expected = autograd(exported(stack, 1, names), x, target)
        for d in range(2):
            assert relative(stack.weight_gradients[d][1].T, expected[d]) < 1e-5
            assert torch.equal(stack.weight_gradients[d][1], alone.weight_gradients[d][0])

    def test_in_double_precision_it_is_that_of_autograd_through_two_hundred_layers(self):
        assert self.deep(torch.float64)[0] < 1e-12

    def test_in_single_precision_its_rounding_is_of_the_size_of_autograds(self):
        ours, theirs = self.deep(torch.float32)  # NumPy rounds tanh twice as coarsely as torch: 1.1e-7 against 0.6e-7
        assert theirs < 1e-5
        assert ours < 4 * theirs

    def test_in_single_precision_it_is_that_of_autograd_through_64_layers(self):
        widths, names = (64, *[64] * 63, 10), ["tanh"] * 63 + ["linear"]
        stack = random_stack(widths, names, 2, nets.CrossEntropy())
        x, target = minibatch(widths, stack.loss)
        stack.gradient(x, target)
        expected = autograd(exported(stack, 1, names), x, target)
        for d, theirs in enumerate(expected):
            assert relative(stack.weight_gradients[d][1].T.double(), theirs) < 1e-5

    def test_its_norm_counts_weights_and_biases_of_all_layers(self):
        stack = random_stack(self.widths, ["tanh"] * 3 + ["linear"], 2, nets.CrossEntropy())
        stack.gradient(*minibatch(self.widths, stack.loss))
        every = [*stack.weight_gradients, *stack.bias_gradients]
        expected = [sum(each[k].square().sum() for each in every).sqrt().item() for k in range(2)]
        assert stack.gradient_norm().tolist() == pytest.approx(expected, rel=1e-6)


class TestStack:
    widths, names = (12, 9, 7, 4), ("tanh", "tanh", "linear")  # no multiples of a vector's width

    def steps(self, stack, count=5):
        x, target = minibatch(self.widths, stack.loss)
        updater = Updater(stack, parse_optimizer("sgd"), [0.0] * stack.count, [1.0] * stack.count)
        rates = torch.full((3, stack.count), 0.1)
        losses = []
        for step in range(count):
            losses.append(stack.gradient(x, target))
            updater.update(rates, step + 1)
        return torch.stack(losses)

    def test_a_network_comes_out_bit_for_bit_the_same_alone_and_in_a_stack(self):
        full = random_stack(self.widths, self.names, 5, nets.CrossEntropy())
        alone = copy.deepcopy(full)
        alone.keep([3])
        assert torch.equal(self.steps(full)[:, 3], self.steps(alone)[:, 0])
        assert all(torch.equal(a[3], b[0]) for a, b in zip(full.weights, alone.weights, strict=True))

    @pytest.mark.parametrize("depth", [5, 150])
    def test_the_norm_of_its_gradient_is_bit_for_bit_the_same_alone_and_in_a_stack(self, depth):
        widths, names = (12, *[6] * (depth - 1), 4), ["tanh"] * (depth - 1) + ["linear"]
        full = random_stack(widths, names, 8, nets.CrossEntropy())
        norms = []
        for networks in (range(8), *([k] for k in range(8))):
            stack = copy.deepcopy(full)
            stack.keep(list(networks))
            stack.gradient(*minibatch(widths, stack.loss))
            norms.append(stack.gradient_norm())
        assert torch.equal(torch.cat(norms[1:]), norms[0])

    def test_a_network_that_is_not_finite_does_not_disturb_the_others(self):
        clean = random_stack(self.widths, self.names, 3, nets.CrossEntropy())
        spoilt = copy.deepcopy(clean)
        spoilt.weights[1][1] = float("nan")
        expected, losses = self.steps(clean), self.steps(spoilt)
        assert torch.equal(losses[:, [0, 2]], expected[:, [0, 2]])
        assert losses[:, 1].isnan().all()

    def test_outputs_are_those_of_the_exported_network(self):
        stack = random_stack(self.widths, self.names, 3, nets.CrossEntropy())
        x, _ = minibatch(self.widths, stack.loss, rows=11)
        outputs = stack.outputs(x)
        for index in range(3):
            torch.testing.assert_close(outputs[index], exported(stack, index, self.names)(x), rtol=1e-5, atol=1e-6)

    def test_narrow_networks_are_evaluated_on_many_minibatches_at_a_time(self):
        stack = random_stack(self.widths, self.names, 2, nets.CrossEntropy(), batch=20)
        assert stack.rows == 1000
        x, _ = minibatch(self.widths, stack.loss, rows=stack.rows)
        outputs = stack.outputs(x)
        torch.testing.assert_close(outputs[1], exported(stack, 1, self.names)(x), rtol=1e-5, atol=1e-6)
        stack.gradient(x[:20], torch.zeros(20, dtype=torch.int64))

    def test_mistakes_and_losses_are_summed_over_the_rows(self):
        stack = random_stack(self.widths, self.names, 2, nets.CrossEntropy())
        x, target = minibatch(self.widths, stack.loss)
        loss, mistakes = stack.loss.sums(stack.outputs(x), target)
        output = exported(stack, 1, self.names)(x)
        assert loss[1].item() == pytest.approx(nn.CrossEntropyLoss(reduction="sum")(output, target).item(), rel=1e-5)
        assert mistakes[1].item() == (output.argmax(1) != target).sum().item()

    def test_the_predicted_bytes_are_those_of_its_tensors_and_plans(self):
        for name in ("tanh", "gelu"):
            names = (name, name, "linear")
            stack = random_stack(self.widths, names, 4, nets.CrossEntropy(), batch=50)
            sizes = storages(vars(stack).values())
            predicted = nets.stack_bytes(self.widths, names, 4, 50) - footprint.PLAN_BYTES * len(names)
            alignment = 64 * 4 * len(sizes)
            assert 0 <= sum(sizes) - predicted < alignment


def storages(values):
    """Return the bytes of each block of memory that tensors, or lists of tensors, among these values occupy."""
    tensors = [each for value in values for each in (value if isinstance(value, list) else [value])]
    blocks = [each.untyped_storage() for each in tensors if isinstance(each, torch.Tensor)]
    return list({block.data_ptr(): block.nbytes() for block in blocks}.values())


class TestExport:
    names = ("elu(0.5)", "sin", "linear", "linear")

    def model(self):
        stack = random_stack((6, 5, 4, 3, 2), self.names, 2, nets.SquaredError())
        return exported(stack, 1, self.names)

    def test_it_is_a_plain_sequential_with_the_activations_in_place(self):
        kinds = [type(each).__name__ for each in self.model()]
        assert kinds == ["Linear", "ELU", "Linear", "Elementwise", "Linear", "Linear"]

    def test_a_saved_network_loads_and_computes_the_same(self, tmp_path):
        model, path = self.model(), tmp_path / "network.safetensors"
        nets.save_network(model, self.names, path)
        x = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
        assert torch.equal(nets.load_network(path)(x), model(x))
        assert [each.name for each in tmp_path.iterdir()] == ["network.safetensors"]

    def test_it_owns_its_memory(self):
        stack = random_stack((6, 5, 2), ("tanh", "linear"), 1, nets.SquaredError())
        model = exported(stack, 0, ("tanh", "linear"))
        before = model[0].weight.clone()
        stack.weights[0].zero_()
        assert torch.equal(model[0].weight, before)

    def test_a_file_that_is_no_network_is_named(self, tmp_path):
        path = tmp_path / "junk.safetensors"
        path.write_bytes(b"junk")
        with pytest.raises(ValueError, match=r"load_network: .*junk.safetensors is not a network"):
            nets.load_network(path)


def autograd(model, x, target):
    """Return the gradients of the weights of all Linear layers, in double precision."""
    nn.CrossEntropyLoss()(model(x), target).backward()
    return [each.weight.grad.double() for each in model if isinstance(each, nn.Linear)]


def relative(result, expected):
    """Return the norm of the difference over the norm of the expected value."""
    return ((result - expected).norm() / expected.norm()).item()


# Which library computes the products.


@pytest.mark.parametrize(
    ("maker", "mkl", "limit"),
    [("GenuineIntel", True, 80), ("GenuineIntel", False, 895), ("AuthenticAMD", True, 895)],
    ids=["MKL on its maker's processor", "Intel without MKL", "MKL on another processor"],
)
def test_the_faster_library_of_the_processor_computes_the_products(maker, mkl, limit, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nvendor_id : {maker}\n")
    monkeypatch.setattr(products, "Path", lambda path: tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: mkl)
    monkeypatch.setattr(products, "_mkl_at_home", products._mkl_at_home.__wrapped__)
    for width in (limit - 1, limit):
        h, weight, out = torch.zeros(1, 3, width), torch.zeros(1, width, width), torch.zeros(1, 3, width)
        forward = products.affine(h, weight, torch.zeros(1, 1, width), out, by_numpy=True)
        gradient = products.gradient(h[None], out[None], weight[None], by_numpy=True)
        assert (forward[0].func is np.matmul, gradient[0].func is np.matmul) == (width < limit,) * 2


@pytest.mark.parametrize("intel", [True, False])
@pytest.mark.parametrize("by_numpy", [True, False])
def test_every_library_computes_the_products_of_a_block_of_layers(by_numpy, intel, monkeypatch):
    monkeypatch.setattr(products, "_mkl_at_home", lambda: intel)
    draw = torch.Generator().manual_seed(0)
    h, delta = torch.randn(4, 2, 30, 90, generator=draw), torch.randn(4, 2, 30, 80, generator=draw)
    out = torch.empty(4, 2, 90, 80)
    run(products.gradient(h, delta, out, by_numpy))
    torch.testing.assert_close(out, (h.double().mT @ delta.double()).float(), rtol=1e-5, atol=1e-4)


class TestLargePages:
    @pytest.mark.parametrize(("megabytes", "asked"), [(1, False), (9, True)])
    def test_they_are_asked_for_within_large_memory(self, megabytes, asked, monkeypatch):
        ranges = []
        monkeypatch.setattr(memory, "_advise", lambda: lambda first, size, advice: ranges.append((first, size)))
        block = memory.aligned(torch.empty(0), 3, megabytes * 2**18)
        start, stop = block.data_ptr(), block.data_ptr() + 3 * megabytes * 2**20
        assert bool(ranges) == asked
        for first, size in ranges:
            assert first % mmap.PAGESIZE == size % mmap.PAGESIZE == 0
            assert start <= first < start + mmap.PAGESIZE
            assert stop - mmap.PAGESIZE < first + size <= stop

    @pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="this kernel has none")
    def test_the_request_is_understood(self):
        block = mmap.mmap(-1, 2**23)
        address = ctypes.addressof(ctypes.c_char.from_buffer(block))
        advise = memory._advise()
        assert advise(address, 2**23, mmap.MADV_HUGEPAGE) == 0
        assert advise(address + 1, 2**23, mmap.MADV_HUGEPAGE) == -1
