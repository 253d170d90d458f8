"""The band of probe on batches and beyond dense chains; results/coverage.md has all kinds with 100 networks each."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.mark.parametrize("kind", ["MLP, gelu", "convolutions, circular", "residual MLP"])
def test_the_final_log_norms_of_networks_scatter_as_the_band_says(kind, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import coverage_of_probe

    z, _ = coverage_of_probe.scores(kind, nets=12)
    assert (abs(z) < 1.96).sum() >= 10
    assert abs(z.mean()) < 3 / 12**0.5
    assert 0.4 < z.std() < 1.6
