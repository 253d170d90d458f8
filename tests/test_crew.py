"""A crew: its tasks are run once and in order, and a network trained by several threads is that of one, bit for bit."""

import threading
from functools import partial
from itertools import pairwise, starmap

import pytest
import torch

from gradwalk import nets
from gradwalk.nets import Stack, Updater, footprint, memory, parse_optimizer, products, stack, updates
from gradwalk.nets.crew import Crew, Task, run
from gradwalk.nets.pace import Pace

THREADS = [1, 2, 4]


class TestTasks:
    def test_a_task_is_run_once(self):
        done = []
        task = Task([partial(done.append, 1), partial(done.append, 2)])
        task.begin()
        task.begin()
        task.finish()
        assert done == [1, 2]

    @pytest.mark.parametrize("threads", THREADS)
    def test_all_parts_are_run_before_the_work_counts_as_shared(self, threads):
        with Crew(threads - 1) as crew:
            assert crew.threads == threads
            for _ in range(50):
                done = []
                crew.share([[partial(done.append, (part, step)) for step in range(3)] for part in range(5)])
                assert sorted(done) == [(part, step) for part in range(5) for step in range(3)]
                assert all([step for part, step in done if part == each] == [0, 1, 2] for each in range(5))

    @pytest.mark.parametrize("threads", THREADS)
    @pytest.mark.parametrize("ahead", [1, 2, 3])
    def test_what_trails_is_neither_early_nor_too_late(self, threads, ahead):
        first, second = [], []

        def lead(place):
            assert set(range(place - ahead + 1)) <= set(second)
            first.append(place)

        def follow(place):
            assert place in first
            second.append(place)

        with Crew(threads - 1) as crew:
            crew.trail([([partial(lead, place)], [partial(follow, place)]) for place in range(40)], ahead)
        assert first == sorted(second) == list(range(40))

    @pytest.mark.parametrize("threads", THREADS)
    def test_an_error_is_raised_in_the_thread_that_gave_the_work(self, threads):
        with Crew(threads - 1) as crew, pytest.raises(ZeroDivisionError):
            crew.share([[int], [partial(divmod, 1, 0)]])

    def test_a_helper_that_does_not_go_on_holds_up_one_task_only(self):
        begun, others = threading.Event(), threading.Event()
        with Crew(1) as crew:
            stuck = crew.give([begun.set, others.wait])
            assert begun.wait(60)
            rest = [crew.give([int]) for _ in range(5)]
            for task in rest:
                task.finish()  # by this thread, or the test would not end
            others.set()
            stuck.finish()

    def test_its_threads_end_with_it(self):
        before = threading.active_count()
        with Crew(3):
            assert threading.active_count() == before + 3
        assert threading.active_count() == before


class TestPace:
    """The times of steps are made up here: no test depends on a clock."""

    def steps(self, pace, count, helped, alone, unit=0.01):
        """Take steps that last so long with help and without, in units of seconds; return which were helped."""
        ways = []
        for _ in range(count):
            ways.append(pace.helped)
            pace.note(unit * (helped if pace.helped else alone))
        return ways

    @pytest.mark.parametrize(("helped", "alone"), [(1.0, 1.5), (1.0, 1.05), (1.5, 1.0), (1.05, 1.0)])
    def test_all_but_a_few_steps_are_taken_the_faster_way(self, helped, alone):
        pace = Pace()
        self.steps(pace, 50, helped, alone)
        ways = self.steps(pace, 2000, helped, alone)
        assert ways.count(helped < alone) >= 0.97 * len(ways)

    def test_a_wrong_choice_does_not_last(self):
        pace = Pace()
        self.steps(pace, 35, 2.0, 1.5)  # something else held up the helped steps
        assert not pace.helped
        ways = self.steps(pace, 300, 1.0, 1.5)
        assert ways.count(True) >= 250

    def test_a_neighbour_that_comes_and_goes_is_noticed(self):
        pace = Pace()
        self.steps(pace, 300, 1.0, 1.5)
        self.steps(pace, 60, 2.0, 1.5)
        assert self.steps(pace, 100, 2.0, 1.5).count(True) <= 10  # two trials
        self.steps(pace, 210, 1.0, 1.5)  # alone nothing tells that help would be faster again, so that it is tried
        assert self.steps(pace, 100, 1.0, 1.5).count(True) >= 95  # all but one trial

    @pytest.mark.parametrize("unit", [0.5, 30.0])
    def test_of_long_steps_fewer_are_enough(self, unit):
        pace = Pace()
        assert self.steps(pace, 25, 1.0, 1.5, unit).count(False) == 3  # one trial
        self.steps(pace, 18, 2.0, 1.5, unit)  # a neighbour comes: those that are enough to tell, and a trial
        assert not pace.helped
        assert self.steps(pace, 100, 2.0, 1.5, unit).count(True) <= 9  # three trials

    def test_slow_seconds_of_the_machine_are_no_reason_to_change(self):
        pace, slow = Pace(), []
        for step in range(2000):
            pace.note((0.01 if pace.helped else 0.013) * (4.0 if step % 70 > 60 else 1.0))
            slow.append(not pace.helped)
        assert sum(slow) <= 0.1 * len(slow)

    def test_steps_that_become_slower_either_way_are_no_reason_to_change(self):
        pace = Pace()
        self.steps(pace, 300, 1.0, 1.5)
        ways = self.steps(pace, 300, 3.0, 4.5)
        assert ways.count(False) <= 10  # two trials

    def test_the_helpers_of_a_crew_rest_if_steps_are_faster_without_them(self, monkeypatch):
        monkeypatch.setattr(Pace, "note", lambda pace, seconds: setattr(pace, "helped", False))
        done = []
        with Crew(1) as crew:
            assert crew.working == 2
            with crew.timed():
                pass
            assert (crew.threads, crew.working) == (2, 1)
            crew.share([[int], [lambda: done.append(threading.get_ident())]])
        assert done == [threading.get_ident()]


class TestCuts:
    @pytest.mark.parametrize(("fan_in", "fan_out"), [(88, 88), (249, 249), (784, 31), (64, 10), (900, 900)])
    def test_products_by_parts_have_the_bits_of_the_whole(self, fan_in, fan_out):
        with products.one_thread():
            cuts = products.cuts(200, 3, ((fan_in, fan_out),), True)
            generator = torch.Generator().manual_seed(1)
            h, weight = (torch.randn(1, rows, n, generator=generator) for rows, n in ((200, fan_in), (fan_in, fan_out)))
            bias, whole, by_parts = (
                torch.ones(1, 1, fan_out),
                torch.zeros(1, 200, fan_out),
                torch.zeros(1, 200, fan_out),
            )
            run(products.affine(h, weight, bias, whole, True))
            for rows in starmap(slice, pairwise(cuts)):
                run(products.affine(h[:, rows], weight, bias, by_parts[:, rows], True))
        assert cuts in ([0, 48, 144, 200], [0, 200])  # all rows where the library has other bits for some of them
        assert torch.equal(by_parts, whole)

    def test_rows_stay_together_where_a_part_of_them_has_other_bits(self, monkeypatch):
        monkeypatch.setattr(products, "_agree", lambda cuts, fan_in, fan_out, by_numpy: fan_in < 50)
        assert products.cuts.__wrapped__(200, 2, ((40, 40),), True) == [0, 96, 200]
        assert products.cuts.__wrapped__(200, 2, ((40, 40), (50, 40)), True) == [0, 200]

    def test_a_comparison_sees_a_single_bit(self, monkeypatch):
        by_hand = products.affine

        def careless(h, weight, bias, out, by_numpy):
            spoil = [] if h.shape[1] == 200 else [partial(out[0, 0, 0].mul_, 1 + 2**-23)]
            return by_hand(h, weight, bias, out, by_numpy) + spoil

        assert products.cuts.__wrapped__(200, 2, ((40, 40),), True) == [0, 96, 200]
        monkeypatch.setattr(products, "affine", careless)
        assert products.cuts.__wrapped__(200, 2, ((40, 40),), True) == [0, 200]


@pytest.fixture
def _every_thread_has_work(monkeypatch):
    """Let all threads work, also on networks as small as these, and blocks have a few layers."""
    monkeypatch.setattr(stack, "THREAD_FLOPS", 1.0)
    monkeypatch.setattr(updates, "PART_NUMBERS", 1)
    monkeypatch.setattr(footprint, "_BLOCK_FLOPS", 1e6)
    monkeypatch.setattr(footprint, "_UPDATED", 4_000)


def layers(widths, networks=1):
    generator = torch.Generator().manual_seed(0)
    for fan_in, fan_out in pairwise(widths):
        weights = torch.randn(3, fan_in, fan_out, generator=generator) * 1.2 / fan_in**0.5
        biases = torch.randn(3, fan_out, generator=generator) * 0.1
        yield weights[:networks], biases[:networks]


def trained(widths, names, crew, optimizer="sgd", networks=1, kernels="auto"):
    """Return all numbers of the first network after some steps, the norms of its gradients and some outputs."""
    generator = torch.Generator().manual_seed(1)
    built = Stack(layers(widths, networks), widths, names, nets.CrossEntropy(), 100, kernels, crew)
    updater = Updater(built, parse_optimizer(optimizer), [1e-3] * networks, [1.0] * networks)
    rates, norms = torch.full((len(names), networks), 0.01), []
    for step, rows in enumerate((100, 100, 37, 100)):
        x = torch.randn(rows, widths[0], generator=generator)
        with built.crew.timed():
            built.gradient(x, torch.randint(0, widths[-1], (rows,), generator=generator))
            norms.append(built.gradient_norm()[0])
            updater.update(rates, step + 1, torch.full((networks,), 0.5))
    outputs = built.outputs(torch.randn(built.rows, widths[0], generator=generator))[0]
    weights, biases = built.network(0)
    return [*weights, *biases, outputs, torch.stack(norms)]


@pytest.mark.usefixtures("_every_thread_has_work")
class TestSameBits:
    @pytest.mark.parametrize(
        ("widths", "name"),
        [
            ((30, *[40] * 12, 10), "tanh"),
            ((30, *[33] * 9, 10), "gelu"),
            ((30, 40, 40, 40, 20, 20, 20, 40, 40, 10), "relu"),
            ((20, *[20] * 9, 10), "selu"),
            ((50, 900, 900, 10), "tanh"),
        ],
        ids=["tanh", "gelu", "widths that change", "as wide as its inputs", "wide"],
    )
    @pytest.mark.parametrize("networks", [1, 3])
    def test_a_network_is_the_same_on_any_number_of_threads(self, widths, name, networks):
        names = [name] * (len(widths) - 2) + ["linear"]
        with products.one_thread():
            expected = trained(widths, names, None)
            for threads in (2, 3):
                with Crew(threads - 1) as crew:
                    numbers = trained(widths, names, crew, networks=networks)
                assert all(map(torch.equal, numbers, expected))

    def test_helpers_that_rest_now_and_then_change_nothing(self, monkeypatch):
        widths, names = (30, *[40] * 6, 10), ["tanh"] * 6 + ["linear"]
        monkeypatch.setattr(Pace, "note", lambda pace, seconds: setattr(pace, "helped", not pace.helped))
        with products.one_thread(), Crew(2) as crew:
            expected = trained(widths, names, None, "adam")
            assert all(map(torch.equal, trained(widths, names, crew, "adam"), expected))

    @pytest.mark.parametrize("optimizer", ["momentum", "adam", "adamw"])
    def test_the_state_of_an_optimizer_is_the_same_too(self, optimizer):
        widths, names = (30, *[40] * 6, 10), ["tanh"] * 6 + ["linear"]
        with products.one_thread(), Crew(2) as crew:
            expected = trained(widths, names, None, optimizer)
            assert all(map(torch.equal, trained(widths, names, crew, optimizer), expected))

    def test_torch_alone_is_helped_too(self):
        widths, names = (30, *[40] * 6, 10), ["tanh"] * 6 + ["linear"]
        with products.one_thread(), Crew(1) as crew:
            expected = trained(widths, names, None, kernels="torch")
            assert all(map(torch.equal, trained(widths, names, crew, kernels="torch"), expected))

    def test_blocks_of_layers_do_not_matter(self, monkeypatch):
        widths, names = (30, *[40] * 12, 10), ["tanh"] * 12 + ["linear"]
        with products.one_thread():
            results = []
            for flops in (1.0, 1e6, 1e9):
                monkeypatch.setattr(footprint, "_BLOCK_FLOPS", flops)
                results.append(trained(widths, names, None))
        assert all(map(torch.equal, results[0], results[1]))
        assert all(map(torch.equal, results[0], results[2]))

    @pytest.mark.parametrize("optimizer", ["sgd", "momentum", "nesterov", "adam", "adamw"])
    @pytest.mark.parametrize("width", [40, 33], ids=["whole cache lines", "padded"])
    def test_it_does_not_matter_how_many_layers_are_updated_together(self, optimizer, width, monkeypatch):
        widths, names = (30, *[width] * 12, 10), ["tanh"] * 12 + ["linear"]
        results = []
        with products.one_thread():
            for numbers, networks in ((1, 1), (4_000, 3), (65_536, 3), (65_536, 1)):
                monkeypatch.setattr(footprint, "_UPDATED", numbers)
                results.append(trained(widths, names, None, optimizer, networks))
        assert all(torch.equal(*pair) for other in results[1:] for pair in zip(results[0], other, strict=True))


def test_layers_of_one_shape_are_joined_without_a_copy():
    like = torch.empty(0)
    tensors = memory.aligned_layers(like, 2, [(3, 5), (3, 5), (3, 5), (4, 5)])
    for place, tensor in enumerate(tensors):
        tensor.fill_(place)
    whole = memory.joined(tensors[1:3])
    assert whole.shape == (2, 2, 3, 5)
    assert whole[:, 0, 0, 0].tolist() == [1, 2]
    whole[1].fill_(7)
    assert tensors[2].unique().tolist() == [7]
    assert all(each.data_ptr() % 64 == 0 for tensor in tensors for each in tensor)
    assert memory.joined(tensors[3:]).shape == (1, 2, 4, 5)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_predicted_bytes_count_what_several_threads_need(optimizer, monkeypatch):
    monkeypatch.setattr(updates, "PART_NUMBERS", 1)
    monkeypatch.setattr(footprint, "_UPDATED", 2_000)  # two of the hidden layers
    widths, names = (12, *[30] * 8, 4), ["tanh"] * 8 + ["linear"]
    sizes = {}
    for threads in (1, 3):
        with Crew(threads - 1) as crew:
            built = Stack(layers(widths), widths, names, nets.CrossEntropy(), 50, crew=crew)
            updater = Updater(built, parse_optimizer(optimizer), [0.0], [1.0])
            scratch = [part[0].scratch for part in updater._parts if part[0].scratch is not None]  # a part shares it
            sizes[threads] = 4 * len(built._scratch) + sum(each.untyped_storage().nbytes() for each in scratch)
    predicted = [nets.stack_bytes(widths, names, 1, 50, optimizer, threads) for threads in (1, 3)]
    assert sizes[3] - sizes[1] == predicted[1] - predicted[0] > 0
