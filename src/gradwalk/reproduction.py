"""Compute and draw figures, and write the page that shows them: what `gradwalk reproduce` does.

result = gradwalk.reproduce(["fig1", "fig3"], scale="quick", out="report")
result.figures["fig3"].table.frame  # the runs, as a pandas data frame
result.findings["C6"].verdict
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gradwalk import checks
from gradwalk import figures as known
from gradwalk.data import Datasets, fetch
from gradwalk.display import BLUE, Shown, axes_of
from gradwalk.figures import Figure, SimulatedFigure, Table, TrainedFigure, provenance
from gradwalk.figures import table as table_files
from gradwalk.figures.outcomes import Line
from gradwalk.figures.stand_ins import with_available_data
from gradwalk.files import atomic
from gradwalk.progress import progress
from gradwalk.report import VERDICTS, Finding, findings, write_page
from gradwalk.report.tables import read_tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gradwalk.sweep import Spec, SweepProgress, SweepSummary


@dataclass(frozen=True)
class ReproducedFigure:
    """A figure that was drawn: its table, the files written, and the numbers that matter."""

    figure: Figure
    table: Table
    files: tuple[Path, ...]
    summary: list[Line]


@dataclass(frozen=True, repr=False)
class Reproduction(Shown):
    """The result of `reproduce`.

    Attributes:
        out: the folder.
        figures: what was drawn, by name.
        left_out: why a figure was not drawn, by name.
        findings: the verdict on each claim, from the tables of all figures in the folder.
        page: the path of the page, None if nothing was drawn.
    """

    out: Path
    figures: dict[str, ReproducedFigure]
    left_out: dict[str, str]
    findings: dict[str, Finding]
    page: Path | None

    def __repr__(self) -> str:
        return f"Reproduction({', '.join(self.figures) or 'no figures'} in {self.out})"

    def columns(self) -> dict[str, list[str]]:
        """Return the claims with their verdicts and what came out, as named columns."""
        found = self.findings.values()
        verdicts, came_out = [each.verdict for each in found], [each.came_out for each in found]
        return {"claim": list(self.findings), "verdict": list(verdicts), "came_out": came_out}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how many claims have which verdict, and return the axes."""
        panel, verdicts = axes_of(ax), self.columns()["verdict"]
        panel.barh(VERDICTS[::-1], [verdicts.count(verdict) for verdict in VERDICTS[::-1]], color=BLUE)
        panel.set(xlabel="claims")
        return panel


class Watcher:
    """Receives the events of `reproduce`; by default it ignores them."""

    def began(self, figure: Figure, place: int, count: int) -> None:
        """Begin with a figure, the `place`-th of `count`."""

    def noted(self, message: str) -> None:
        """Report something that the user should know."""

    def ended(self, result: ReproducedFigure) -> None:
        """Complete a figure."""


@dataclass(frozen=True)
class _Request:
    """The arguments of `reproduce` that apply to every figure."""

    out: Path
    scale: str
    spec: Path | None
    seed: int | None
    redraw: bool
    force: bool
    engine: str
    device: str
    threads: int | None
    datasets: Datasets
    watcher: Watcher

    def spec_text(self, figure: TrainedFigure) -> str:
        return figure.spec_text(self.scale) if self.spec is None else self.spec.read_text("utf-8")

    def load_spec(self, figure: TrainedFigure) -> Spec:
        from gradwalk.sweep import Spec

        source = self.spec_text(figure) if self.spec is None else self.spec
        return Spec.load(source, [] if self.seed is None else [f"seed={self.seed}"])

    @property
    def label(self) -> str:
        """The scale, or the name of the user's own spec."""
        return self.scale if self.spec is None else self.spec.stem

    def folder(self, figure: Figure) -> Path:
        return self.out / "sweeps" / f"{figure.name}-{self.label}"

    def data(self, figure: Figure) -> Path:
        return self.out / f"{figure.name}.csv"

    def larger(self, figure: Figure) -> str | None:
        """Return the scale of a trained figure's table in the folder if it must not be replaced by this one."""
        path = self.data(figure)
        if self.force or self.redraw or isinstance(figure, SimulatedFigure) or not path.exists():
            return None
        before = table_files.read(path).made.get("scale", "unknown")
        return None if replaces(self.label, before) else before


def reproduce(
    names: str | Iterable[str] = "all",
    *,
    scale: str = "smoke",
    out: str | Path = "report",
    spec: str | Path | None = None,
    seed: int | None = None,
    redraw: bool = False,
    force: bool = False,
    engine: str = "local",
    device: str = "cpu",
    threads: int | None = None,
    data: Mapping[str, str | Path] | None = None,
    datasets: Datasets | None = None,
    watcher: Watcher | None = None,
) -> Reproduction:
    """Compute and draw figures, write each as CSV, PNG and PDF, and write a page with all figures in the folder.

    A simulated figure is computed again only if its CSV has another seed or version. The runs of a trained figure are
    kept in `out`/sweeps and never trained twice; an interrupted call resumes.

    Args:
        names: figures of `gradwalk.figures.FIGURES`, or "all" for those of the paper, of which those without data or
            torch are left out.
        scale: of the trained figures, see `gradwalk.figures.SCALES`.
        out: the folder to write to.
        spec: a spec file to use instead of a scale, for one trained figure.
        seed: of the simulations and initial weights (default: 0, or that of the spec).
        redraw: draw from the CSV files in `out` without running anything.
        force: replace figures of a larger scale, or of another spec. Without it, "all" keeps them.
        engine: of `gradwalk.sweep.run_sweep`, "local" or "ray".
        device: of `gradwalk.sweep.run_sweep`, such as "cpu" or "cuda".
        threads: of `gradwalk.sweep.run_sweep` (default: one per core).
        data: folders of data sets by name, such as {"timit": "/corpora/TIMIT"}, which `gradwalk.data.fetch` stores.
        datasets: a cache to load the data from.
        watcher: receives events.

    Returns:
        The tables, files, findings and the path of the page.

    Raises:
        ValueError: if there is no such figure or scale, if a spec is given for more than one figure, or if a figure
            that is named is in the folder at a larger scale.
        ModuleNotFoundError: if a figure that is named needs an extra which is not installed.

    >>> result = reproduce("fig1", out=getfixture("tmp_path"))
    >>> sorted(path.name for path in result.figures["fig1"].files)
    ['fig1.csv', 'fig1.pdf', 'fig1.png']
    """
    chosen, everything = _chosen(names)
    _check(chosen, scale, spec, seed)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    request = _Request(
        out=folder,
        scale=scale,
        spec=None if spec is None else Path(spec),
        seed=seed,
        redraw=redraw,
        force=force,
        engine=engine,
        device=device,
        threads=threads,
        datasets=datasets or Datasets(),
        watcher=watcher or Watcher(),
    )
    if not everything:
        _refuse_to_replace(chosen, request)
    for name, place in (data or {}).items():
        request.watcher.noted(f"reading {name} from {place}")
        fetch(name, folder=place)
    done, left_out = _reproduce_each(chosen, request, optional=everything)
    tables = read_tables(folder)
    page = write_page(folder, tables, left_out) if done else None
    return Reproduction(folder, done, left_out, findings(tables), page)


def replaces(scale: str, before: str) -> bool:
    """Return whether a figure of one scale may replace that of another; the name of a spec is a scale of its own.

    >>> replaces("laptop", "quick"), replaces("quick", "laptop"), replaces("quick", "my own spec")
    (True, False, False)
    """
    order: tuple[str, ...] = known.SCALES
    both = scale in order and before in order
    return scale == before or (both and order.index(scale) > order.index(before))


def spec_texts(names: str | Iterable[str], *, scale: str = "smoke", spec: str | Path | None = None) -> list[str]:
    """Return the specs that `reproduce` would run for these figures."""
    chosen, _ = _chosen(names)
    _check(chosen, scale, spec, None)
    trained = [figure for figure in chosen if isinstance(figure, TrainedFigure)]
    if not trained:
        raise ValueError(f"reproduce: only trained figures have a spec, got {_joined(chosen)}")
    return [Path(spec).read_text("utf-8") if spec is not None else figure.spec_text(scale) for figure in trained]


def _chosen(names: str | Iterable[str]) -> tuple[list[Figure], bool]:
    """Return the figures of these names, and whether "all" is among them."""
    listed = [names] if isinstance(names, str) else list(names)
    everything = not listed or "all" in listed
    papers = [figure for figure in known.FIGURES if everything and figure.in_paper]
    named = [known.FIGURES.find(name, "reproduce") for name in listed if name != "all"]
    return list({figure.name: figure for figure in [*papers, *named]}.values()), everything


def _check(chosen: Sequence[Figure], scale: str, spec: str | Path | None, seed: int | None) -> None:
    checks.one_of("reproduce", "scale", scale, known.SCALES)
    if seed is not None:
        checks.whole("reproduce", "seed", seed, least=0)
    if spec is not None and (len(chosen) != 1 or not isinstance(chosen[0], TrainedFigure)):
        raise ValueError(f"reproduce: spec is for one trained figure, got {_joined(chosen)}")


def _joined(figures: Iterable[Figure]) -> str:
    return " ".join(figure.name for figure in figures)


def _reproduce_each(
    chosen: Sequence[Figure], request: _Request, *, optional: bool
) -> tuple[dict[str, ReproducedFigure], dict[str, str]]:
    """Return the figures that were drawn, and why others were left out; unless `optional`, missing data raise."""
    done: dict[str, ReproducedFigure] = {}
    left_out: dict[str, str] = {}
    for place, figure in enumerate(chosen, 1):
        request.watcher.began(figure, place, len(chosen))
        try:
            compute = _prepared(figure, request)
        except (FileNotFoundError, ModuleNotFoundError) as error:
            if not optional:
                raise
            left_out[figure.name] = str(error)
            request.watcher.noted(f"{figure.name} is left out: {error}")
            continue
        done[figure.name] = _draw(figure, compute(), request)
        request.watcher.ended(done[figure.name])
    return done, left_out


def _refuse_to_replace(chosen: Sequence[Figure], request: _Request) -> None:
    """Raise if one of the figures in the folder is of a larger scale."""
    for figure in chosen:
        if (before := request.larger(figure)) is not None:
            raise ValueError(
                f"reproduce: {request.data(figure)} is of scale {before!r} and would be replaced by {request.label!r}; "
                "write to another folder, or replace it with force=True (on the command line, --force)"
            )


def _prepared(figure: Figure, request: _Request) -> Callable[[], Table]:
    """Return a function that computes the table, or raise if data or torch are missing."""
    path = request.data(figure)
    if request.redraw:
        if not path.exists():
            raise FileNotFoundError(f"reproduce: {figure.name} cannot be redrawn without {path}")
        return partial(table_files.read, path)
    if (before := request.larger(figure)) is not None:
        request.watcher.noted(f"{figure.name} is kept at scale {before}; --force replaces it by {request.label}")
        return partial(table_files.read, path)
    if isinstance(figure, SimulatedFigure):
        return partial(_simulated, figure, request)
    assert isinstance(figure, TrainedFigure), "a figure is simulated or trained"
    spec, note = with_available_data(request.load_spec(figure), request.datasets)
    if note is not None:
        request.watcher.noted(f"{figure.name}: {note}")
    return partial(_trained, figure, spec, note, request)


def _simulated(figure: SimulatedFigure, request: _Request) -> Table:
    """Return the table of a simulated figure, from its file if that has the seed and the version."""
    path, seed = request.data(figure), request.seed or 0
    if path.exists() and provenance.is_current(kept := table_files.read(path), seed):
        request.watcher.noted(f"{figure.name} is drawn from {path}, which has this seed and version")
        return kept
    started = time.monotonic()
    computed = figure.compute(seed)
    return _written(replace(computed, made=provenance.simulated_now(time.monotonic() - started)), path)


def _trained(figure: TrainedFigure, spec: Spec, note: str | None, request: _Request) -> Table:
    """Return the table of a trained figure, from its sweep."""
    from gradwalk.sweep import Store

    swept = _swept(figure, spec, request)
    failed = [result for result in swept.results if result.status == "failed"]
    if failed and len(failed) == len(swept.results):
        raise ValueError(f"reproduce: all runs of {figure.name} failed ({failed[0].error})")
    if failed:
        request.watcher.noted(f"{figure.name}: {len(failed)} runs failed and are not drawn ({failed[0].error})")
    computed = figure.tabulate(swept.results, request.datasets)
    with Store(request.folder(figure)) as store:
        made = provenance.trained_by_sweep(swept.results, store, request.label, note)
    return _written(replace(computed, made=made), request.data(figure))


def _swept(figure: Figure, spec: Spec, request: _Request) -> SweepSummary:
    """Run the sweep of a figure, with a display of its progress."""
    from gradwalk.sweep import run_sweep

    with progress(f"{figure.name}: {len(spec.runs())} runs", lines=True) as job:

        def report(state: SweepProgress) -> None:
            if state.left is not None:
                job.update(completed=state.seconds, total=state.seconds + state.left)

        return run_sweep(
            spec,
            request.folder(figure),
            engine=request.engine,
            device=request.device,
            threads=request.threads,
            datasets=request.datasets,
            report=report,
        )


def _draw(figure: Figure, table: Table, request: _Request) -> ReproducedFigure:
    data = request.data(figure)
    pictures = [data.with_suffix(".png"), data.with_suffix(".pdf")]
    known.save(figure.draw(table), pictures)
    return ReproducedFigure(figure, table, (data, *pictures), figure.summary(table))


def _written(table: Table, path: Path) -> Table:
    """Write the table and return what the file holds: the picture is the same when it is redrawn from it."""
    with atomic(path) as partial_path:
        table_files.write(table, partial_path)
    return table_files.read(path)
