"""Which library computes a product: the faster one of two that give the same bits."""

import itertools

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from gradwalk.nets import libraries  # noqa: E402
from gradwalk.nets.memory import aligned  # noqa: E402
from gradwalk.nets.products import one_thread  # noqa: E402

PRODUCTS = ("h W", "delta W^T", "h^T delta")
SHAPE = (2, 60, 70, 70)  # networks, rows, fan-in, fan-out


@pytest.fixture(autouse=True)
def _no_trial_before():
    libraries._tried.cache_clear()
    yield
    libraries._tried.cache_clear()


@pytest.fixture
def numpy_bits(monkeypatch):
    """NumPy's bits count, as on a processor that is not Intel's."""
    monkeypatch.setattr(libraries, "_mkl_at_home", lambda: False)


@pytest.fixture
def seconds(monkeypatch):
    """How long a round takes by the clock of the trial, for the library whose bits count and for the other one."""
    taken = {"usual": 1.0, "other": 1.0}
    by_either = libraries.product_step
    monkeypatch.setattr(libraries, "product_step", lambda *operands: by_either(*operands[:3], False))  # the same bits

    def readings():
        for side in itertools.cycle(("usual", "other")):
            yield from (0.0, taken[side])

    clock = readings()
    monkeypatch.setattr(libraries.time, "perf_counter", lambda: next(clock))
    return taken


@pytest.mark.usefixtures("numpy_bits")
@pytest.mark.parametrize("product", PRODUCTS)
def test_the_other_library_is_taken_if_it_is_faster(product, seconds):
    usual = product != "delta W^T"
    assert libraries.takes_numpy(product, *SHAPE) == usual
    libraries._tried.cache_clear()
    seconds["other"] = 0.9
    assert libraries.takes_numpy(product, *SHAPE) != usual


@pytest.mark.usefixtures("numpy_bits")
@pytest.mark.parametrize("product", PRODUCTS)
def test_a_library_with_other_bits_is_never_taken(product, seconds, monkeypatch):
    by_torch = libraries.product_step

    def with_an_error(left, right, out, by_numpy):
        step = by_torch(left, right, out, by_numpy)
        return lambda: (step(), out[-1, -1, -1].mul_(1 + 2**-23) if by_numpy else None)

    monkeypatch.setattr(libraries, "product_step", with_an_error)
    seconds["other"] = 0.1
    assert libraries.takes_numpy(product, *SHAPE) == (product != "delta W^T")


@pytest.mark.usefixtures("numpy_bits")
@pytest.mark.parametrize("shape", [(1, 10, 20, 20), (16, 5000, 300, 300)])
def test_products_that_take_no_time_or_too_much_are_not_tried(shape, monkeypatch):
    monkeypatch.setattr(libraries, "_tried", None)
    assert [libraries.takes_numpy(product, *shape) for product in PRODUCTS] == [True, False, True]


@pytest.mark.parametrize("maker", ["GenuineIntel", "AuthenticAMD"])
def test_the_bits_of_wide_layers_are_those_of_mkl_on_the_processors_of_its_maker(maker, monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nvendor_id : {maker}\n")
    monkeypatch.setattr(libraries, "Path", lambda path: tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    libraries._mkl_at_home.cache_clear()
    wide = [libraries.bits_of_numpy(product, 80, 80) for product in PRODUCTS]
    narrow = [libraries.bits_of_numpy(product, 80, 79) for product in PRODUCTS]
    libraries._mkl_at_home.cache_clear()
    assert narrow == [True, False, True]
    assert wide == ([False, False, False] if maker == "GenuineIntel" else narrow)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("width", [72, 88, 177])
def test_libraries_that_agree_in_a_trial_agree_on_other_numbers(product, width):
    def both(networks, scale):
        left, right = libraries._operands(product, networks, 100, width, width)
        left.mul_(torch.linspace(1, scale, left.numel()).view(left.shape)).sin_()
        results = [aligned(left, networks, left.shape[1], right.shape[2]) for _ in range(2)]
        for by_numpy, out in enumerate(results):
            libraries.product_step(left, right, out, bool(by_numpy))()
        return torch.equal(*results)

    with one_thread():
        assert len({both(networks, scale) for networks in (1, 3) for scale in (1.0, 7.0, 1e3)}) == 1
