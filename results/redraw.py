"""Draw every picture of this folder again from the tables beside it; nothing is simulated or trained.

python results/redraw.py
"""

from pathlib import Path

import numpy as np
import pandas as pd

from gradwalk.figures import FIGURES, save, table
from gradwalk.figures.curves import draw_error_curves
from gradwalk.figures.error_axis import levels

RESULTS = Path(__file__).parent
EXAMPLES = 10_000  # of the run in mnist-100, to train on and held out
CURVES = {1: "unbiased g, rate 0.01", 2: "unbiased g, rate 0.02"}


def main() -> None:
    """Draw the figures, and the curves of mnist-100, deep and the paper's network."""
    for path in sorted(RESULTS.rglob("*.png")):
        if path.stem in FIGURES:
            save(FIGURES[path.stem].draw(table.read(path.with_suffix(".csv"))), [path])
    draw_mnist_100()
    draw_deep()
    draw_paper_network()


def draw_mnist_100() -> None:
    """Draw the curves of `gradwalk train` in mnist-100 from its metrics."""
    folder = RESULTS / "mnist-100"
    metrics = pd.read_csv(folder / "metrics.csv")
    mistakes = metrics[["train_mistakes", "test_mistakes"]].to_numpy().T / EXAMPLES
    runs = metrics["run"].to_numpy()
    curves = [(metrics["epoch"].to_numpy(float)[runs == run], mistakes[:, runs == run]) for run in CURVES]
    save(
        draw_error_curves(curves, list(CURVES.values()), levels(mistakes, EXAMPLES), share=True), [folder / "curve.png"]
    )


def draw_deep() -> None:
    """Draw the curves of the networks in deep, the shallowest first."""
    folder = RESULTS / "deep"
    runs = [pd.read_csv(path) for path in folder.glob("*thousand.csv")]
    runs.sort(key=lambda run: int(run["depth"][0]))
    draw_exports(runs, [f"{run['depth'][0]:,} layers of {run['width'][0]}" for run in runs], folder / "curves.png")


def draw_paper_network() -> None:
    """Draw the curves of the paper's own network on all of MNIST at equal rates, and of networks of a quarter of it."""
    folder = RESULTS / "paper-network"
    draw_exports([pd.read_csv(folder / "even.csv")], ["1,000 layers of 249, rate 0.0004"], folder / "even.png")
    quarters = pd.read_csv(folder / "quarter.csv").groupby(["rate_in", "seed"])
    labels = [f"250 layers of 62, rate {rate:g}, seed {seed}" for rate, seed in quarters.groups]
    draw_exports([run for _, run in quarters], labels, folder / "quarter.png")


def draw_exports(runs: list[pd.DataFrame], labels: list[str], path: Path) -> None:
    """Draw the curves of runs, as `gradwalk sweep export --epochs` wrote them."""
    curves = [(run["epoch"].to_numpy(float), run[["train_error", "test_error"]].to_numpy().T) for run in runs]
    errors = np.concatenate([both.ravel() for _, both in curves])
    save(draw_error_curves(curves, labels, levels(errors, EXAMPLES), share=True), [path])


if __name__ == "__main__":
    main()
