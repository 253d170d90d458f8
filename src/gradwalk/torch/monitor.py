"""`Monitor`: the walk of the gradient while a network trains, recorded at every n-th step."""

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from gradwalk import checks
from gradwalk.activations import Array
from gradwalk.display import RED, Shown, axes_of
from gradwalk.torch.follow import unwrapped
from gradwalk.torch.measurement import batch_size, count_examples
from gradwalk.torch.norms import Rooms
from gradwalk.torch.passing import Rows
from gradwalk.torch.weight_layers import NAMES, weight_layers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NUMBERS = ("log_norm", "spread", "directions")
_WAITING = 2**20  # numbers of gradients that are kept during a backward pass, to be measured together


@dataclass(frozen=True, eq=False, repr=False)
class Record(Shown):
    """The walk at one step of training, layer 1 first: mean and standard deviation over the examples, and directions.

    directions: how many the gradients of the examples span, as `probe` measures them; NaN for fewer than 8 examples and
    for outputs that are no vectors.
    """

    step: int
    layers: tuple[str, ...]
    log_norm: Array
    spread: Array
    directions: Array

    def __repr__(self) -> str:
        return f"Record(step {self.step}, {len(self.layers)} layers: final log-norm {self.log_norm[0]:.3g})"

    def columns(self) -> dict[str, list[Any]]:
        """Return the walk as named columns, one row per layer."""
        numbers = {name: getattr(self, name).tolist() for name in _NUMBERS}
        return {"layer": list(self.layers), **numbers}

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the log-norm of the gradient from the output back, and return the axes."""
        panel, order = axes_of(ax), np.arange(len(self.layers), 0, -1)
        panel.errorbar(order, self.log_norm[::-1], yerr=self.spread[::-1], color=RED, label=f"step {self.step}")
        panel.set(xlim=(len(self.layers), 1), xlabel="weight layer, from the output back", ylabel="log-norm")
        panel.legend(frameon=False)
        return panel


class Monitor(Shown):
    """Records ln(|delta_d| / |delta_D|) of all weight layers at every n-th step of training, starting with the first.

    With it goes the number of directions that the gradients of the batch span at each layer (`Record.directions`).

    Call `step()` after each backward pass, and `close()` to stop recording; as a context manager the monitor closes
    itself. It never runs the model; hooks are on it only while a step is recorded. Only ratios are recorded, so the
    factor that a GradScaler puts on the loss makes no difference. Of several forward passes before `step()`, the last
    one counts. A model may fold other dimensions into the first one; where that is no multiple of the batch, the whole
    batch counts as one example.

    Args:
        model: any torch.nn.Module.
        every: record every n-th step.
        writer: a TensorBoard SummaryWriter, to which each record is also written: the final log-norm, the lowest, the
            highest and a histogram of all, and the least number of directions.
        tag: the name under which it is written there.

    Raises:
        ValueError: if `every` is below 1, or the model has no weight layer.

    >>> net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    >>> with Monitor(net, every=2) as monitor:
    ...     for _ in range(3):
    ...         net(torch.ones(5, 4)).sum().backward()
    ...         record = monitor.step()
    >>> [(record.step, record.layers) for record in monitor.records]
    [(0, ('0', '2')), (2, ('0', '2'))]
    """

    def __init__(self, model: nn.Module, every: int = 100, *, writer: Any = None, tag: str = "gradwalk") -> None:
        self.every = checks.whole("Monitor", "every", every)
        model = unwrapped(model, "Monitor")
        self.model, self.writer, self.tag = model, writer, tag
        self.layers = weight_layers(model)
        if not self.layers:
            raise ValueError(f"Monitor: the model has no weight layer ({NAMES})")
        self.records: list[Record] = []
        self.steps = 0
        self._handles: list[Any] = []
        self._seen: list[_Seen] = []
        self._measured: list[tuple[list[_Seen], Rows]] = []
        self._rooms = Rooms(_WAITING)
        self._batch = self._size = 0
        self._arm()

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def step(self) -> Record | None:
        """Count a step of training; return its record if this step is recorded."""
        record = self._record() if self._handles else None
        self.steps += 1
        if self.steps % self.every == 0:
            self._arm()
        else:
            self._disarm()
        return record

    def close(self) -> None:
        """Remove the hooks; the records stay."""
        self._disarm()

    def _arm(self) -> None:
        self._forget()
        if not self._handles:
            self._handles.append(self.model.register_forward_pre_hook(self._start, with_kwargs=True))
            self._handles += [module.register_forward_hook(self._hook(name)) for module, name in self.layers.items()]

    def _disarm(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._forget()

    def _forget(self) -> None:
        self._seen.clear()
        self._measured.clear()
        self._size = 0

    def _start(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.is_grad_enabled():  # else a validation pass between forward and backward
            self._forget()
            self._batch = batch_size(args, kwargs)

    def _hook(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def forward(module: nn.Module, args: Any, output: Any) -> None:
            if not isinstance(output, Tensor) or not output.requires_grad:
                return
            seen = _Seen(name, output.output_nr)
            self._seen.append(seen)
            self._size += output.numel()
            hook: Callable[[Any], None] = seen.grads.append
            if self._size > _WAITING:  # on the way back this layer is the last of those since the one before it
                self._size, hook = 0, partial(self._see, seen)
            function = output.grad_fn
            if function is None:
                output.register_hook(hook)  # type: ignore[no-untyped-call]
            else:  # as soon as the gradient is known, and faster than a hook of the tensor
                function.register_prehook(hook)

        return forward

    def _see(self, seen: "_Seen", grads: Any) -> None:
        seen.grads.append(grads)
        self._measure()

    def _measure(self) -> None:
        """Measure the gradients that wait for it; those of one shape are computed together."""
        waiting = [(seen, seen.delta) for seen in self._seen if seen.grads]
        for seen, _ in waiting:
            seen.grads.clear()
        known = [(seen, delta) for seen, delta in waiting if delta is not None]
        self._measured.append(([seen for seen, _ in known], Rows([delta for _, delta in known], self._rooms)))

    def _record(self) -> Record | None:
        self._measure()
        measured = {each for group, _ in self._measured for each in group}
        seen = [each for each in self._seen if each in measured]
        if not seen:
            return None  # no backward pass
        columns = {each: place for place, each in enumerate(seen)}
        examples = count_examples([count for _, rows in self._measured for count in rows.norms.counts], self._batch)
        norms, directions = np.empty((len(seen), examples)).T, np.empty(len(seen))
        for group, rows in self._measured:  # of several backward passes, the last one counts
            own = [columns[each] for each in group]
            norms[:, own], directions[own] = rows.norms.per_example(examples), rows.directions
        record = Record(self.steps, tuple(each.name for each in seen), *_walk(norms), directions)
        self.records.append(record)
        self._write(record)
        return record

    def _write(self, record: Record) -> None:
        finite = record.log_norm[np.isfinite(record.log_norm)]
        if self.writer is None or not len(finite):
            return
        for name, value in summary(record).items():
            self.writer.add_scalar(f"{self.tag}/{name}", value, record.step)
        self.writer.add_histogram(f"{self.tag}/log_norm", finite, record.step)

    def columns(self) -> dict[str, list[Any]]:
        """Return the records as named columns, one row per step and layer."""
        names = ("step", "layer", "name", *_NUMBERS)
        return {name: [row[place] for row in self._rows()] for place, name in enumerate(names)}

    def __repr__(self) -> str:
        return f"Monitor({len(self.records)} records, every {self.every} steps)"

    def to_csv(self, path: str | Path) -> None:
        """Write the records, one row per step and layer."""
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["step", "layer", "name", *_NUMBERS])
            for step, layer, name, *numbers in self._rows():
                rows.writerow([step, layer, name, *map(repr, numbers)])

    def _rows(self) -> list[tuple[Any, ...]]:
        return [
            (record.step, place + 1, name, *(float(getattr(record, each)[place]) for each in _NUMBERS))
            for record in self.records
            for place, name in enumerate(record.layers)
        ]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the log-norms as a heat map, layers against steps, white where they equal 0, and return the axes."""
        if not self.records:
            raise ValueError("Monitor: there are no records yet; call step() after each backward pass")
        panel = axes_of(ax)
        depth = max(len(record.layers) for record in self.records)
        walks = np.full((depth, len(self.records)), math.nan)
        for column, record in enumerate(self.records):
            walks[: len(record.layers), column] = record.log_norm / math.log(10)
        walks[~np.isfinite(walks)] = math.nan
        reach = max(float(np.nanmax(np.abs(walks), initial=0.0)), 0.5)
        steps = [record.step for record in self.records]
        edges = np.append(steps, steps[-1] + self.every) - self.every / 2
        image = panel.pcolormesh(edges, np.arange(depth + 1) + 0.5, walks, cmap="RdBu_r", vmin=-reach, vmax=reach)
        panel.set(xlabel="step", ylabel="weight layer", title="gradient walk while training")
        panel.set_facecolor("#999999")  # grey: not finite
        panel.figure.colorbar(image, ax=panel, label=r"$\log_{10}\,|\delta_d|\,/\,|\delta_D|$")
        return panel


def _walk(norms: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of the log-norms over the examples, from one row of norms per example."""
    passing = norms[:, -1] > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        walks = np.log(norms if passing.all() else norms[passing])
        walks -= walks[:, -1:]
        mean = walks.mean(axis=0) if walks.size else np.full(walks.shape[1], math.nan)
        spread = walks.std(axis=0, ddof=1) if len(walks) > 1 else np.full(walks.shape[1], math.nan)
    return mean, spread


@dataclass(eq=False, slots=True)
class _Seen:
    """A run of a layer, and what autograd passes to its hook: the gradient, or one per output of the function.

    output: which of them is that of the layer.
    """

    name: str
    output: int
    grads: list[Any] = field(default_factory=list)

    @property
    def delta(self) -> Tensor | None:
        """The gradient of the last backward pass."""
        last: Any = self.grads[-1]
        delta: Tensor | None = last[self.output] if isinstance(last, tuple) else last
        return delta


def summary(record: Record) -> dict[str, float]:
    """Return the final log-norm of a record, the lowest and the highest, and the least directions, where known."""
    walk, known = record.log_norm, record.directions[np.isfinite(record.directions)]
    least = {"directions": float(known.min())} if len(known) else {}
    return {"final": float(walk[0]), "lowest": float(walk.min()), "highest": float(walk.max()), **least}
