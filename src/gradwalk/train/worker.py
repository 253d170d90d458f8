"""A worker: trains some of the runs as one stack, with the loop over epochs and minibatches."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from operator import methodcaller
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from gradwalk.data import Dataset, Examples
from gradwalk.nets.crew import Crew
from gradwalk.nets.kernels import Kernels
from gradwalk.nets.losses import CrossEntropy, SquaredError
from gradwalk.nets.optimizers import parse_optimizer
from gradwalk.nets.stack import Stack
from gradwalk.nets.updates import Updater
from gradwalk.train.checkpoint import checkpoint_path, save_state
from gradwalk.train.members import Member
from gradwalk.train.state import Epoch, Outcome
from gradwalk.train.watcher import Event

Rows = NDArray[np.int64]  # numbers of examples
_SAVING = 20  # times as long as a checkpoint took to write, a worker trains at least before it writes the next


class Worker:
    """Trains members that are at the same epoch and step until each has ended.

    threads: the number that compute. report: receives the events. stop: when set, the worker saves its members and
    returns after the current step.
    """

    def __init__(
        self,
        members: list[Member],
        data: Dataset,
        *,
        device: str = "cpu",
        kernels: Kernels = "auto",
        threads: int = 1,
        folder: Path | None = None,
        save_every: float = math.inf,
        report: Callable[[Event], None] = lambda event: None,
        stop: threading.Event | None = None,
    ) -> None:
        self.members, self.data, self.device, self.kernels, self.folder = members, data, device, kernels, folder
        self.threads, self.save_every, self.report, self.stop = threads, save_every, report, stop or threading.Event()
        self.outcomes: dict[int, Outcome] = {}

    def train(self) -> dict[int, Outcome]:
        """Train until every run has ended or `stop` is set, and return the outcomes by the runs' places."""
        torch.set_flush_denormal(True)  # of this thread: vanishing gradients would otherwise take 100 times as long
        # numbers that are not finite show in the loss
        with torch.no_grad(), np.errstate(all="ignore"), Crew(self.threads - 1) as crew:
            self.build(crew)
            self._drop(self._done())  # their checkpoints are of their ends
            while self.members and not self.stop.is_set():
                self._epoch()
            if self.members:
                self.save()
        return self.outcomes

    def build(self, crew: Crew | None = None) -> None:
        """Build the stack and its updater from the members' layers."""
        run, runs = self.members[0].run, [member.run for member in self.members]
        loss = CrossEntropy() if run.task == "classify" else SquaredError()
        widths, activations = run.architecture(self.data)
        self.stack = Stack(_stacked(self.members), widths, activations, loss, run.batch, self.kernels, crew)
        decay, bias_rate = [run.weight_decay for run in runs], [run.bias_rate for run in runs]
        self.updater = Updater(self.stack, parse_optimizer(run.optimizer), decay, bias_rate)
        for place, member in enumerate(self.members):
            self.updater.load(place, member.state.slots)
            member.state.weights, member.state.biases, member.state.slots = [], [], {}  # the stack has them now
        self._next_save = time.monotonic() + self.save_every
        self._settle()

    def save(self) -> None:
        """Write the checkpoint of each run."""
        if self.folder is None:
            return
        started = time.monotonic()
        self._update_states()
        for place, member in enumerate(self.members):
            member.state.slots = self.updater.slots(place)
            save_state(checkpoint_path(self.folder, member.identity), member.identity, member.state)
            member.state.slots = {}
        ended = time.monotonic()
        self._next_save = ended + (max(self.save_every, _SAVING * (ended - started)) if self.save_every else 0.0)

    def step(self, rows: Rows) -> None:
        """Take one step on a minibatch; runs whose loss is no longer finite leave the stack."""
        minibatch = self.minibatch(self.data.train, rows)
        with self.stack.crew.timed():
            loss = self.stack.gradient(*minibatch)
            shorten = None if self.limit is None else self._shorten(self.limit)
            self.steps += 1
            self.updater.update(self.rates, self.steps_before + self.steps, shorten)
        self.report(methodcaller("stepped", len(self.members)))
        finite = loss.isfinite()
        if not finite.all():
            self._diverge([place for place, good in enumerate(finite.tolist()) if not good])

    def minibatch(self, split: Examples, rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """Return inputs and targets of these examples."""
        x = torch.tensor(split.inputs(rows), device=self.device)  # a copy at torch's own alignment, see Stack
        if self.members[0].run.task == "reconstruct":
            return x, x
        return x, torch.from_numpy(split.labels[rows]).to(self.device)

    def _settle(self) -> None:
        """Gather what the members' steps need: rates (layers, networks), the limits of clipping, and counters."""
        state, runs = self.members[0].state, [member.run for member in self.members]
        self.steps, self.clipped = state.steps, [member.state.clipped for member in self.members]
        self.steps_before = state.epochs * math.ceil(len(self.data.train) / runs[0].batch)
        rates = np.stack([run.rates() * run.decay**state.epochs for run in runs], axis=1)
        self.rates = torch.tensor(rates, dtype=torch.float32, device=self.device)
        limits = [np.inf if run.clip is None else run.clip for run in runs]
        self.limit = torch.tensor(limits, dtype=torch.float32, device=self.device) if min(limits) < np.inf else None

    def _epoch(self) -> None:
        """Take the remaining steps of the epoch, and end it unless the worker is to stop."""
        started = time.monotonic()
        for rows in self._minibatches():
            self.step(rows)
            if self.stop.is_set() or not self.members:
                self._clock(started)
                return
            if self.folder is not None and time.monotonic() > self._next_save:
                started = self._clock(started)
                self.save()
        self._clock(started)
        self._end_epoch()

    def _minibatches(self) -> Iterator[Rows]:
        run, count = self.members[0].run, len(self.data.train)
        order = np.random.default_rng([run.data_seed, self.members[0].state.epochs]).permutation(count)
        for start in range(self.steps * run.batch, count, run.batch):
            yield order[start : start + run.batch]

    def _shorten(self, limit: torch.Tensor) -> torch.Tensor | None:
        """Return the factor that clips each network's gradient, and count the clipped steps; None if all are 1."""
        shorten = (limit / self.stack.gradient_norm()).clamp_max(1.0)
        factors = shorten.tolist()
        for place, factor in enumerate(factors):
            self.clipped[place] += factor < 1
        return shorten if any(factor != 1 for factor in factors) else None

    def _end_epoch(self) -> None:
        """Advance all members to the next epoch, and drop those that diverged or reached their end."""
        self._update_states()
        for member in self.members:
            member.state.epochs, member.state.steps = member.state.epochs + 1, 0
        self._measure()
        self._settle()
        self._drop(self._done())

    def _measure(self) -> None:
        """Measure both splits for the runs whose settings ask for it after this epoch."""
        due = [place for place, member in enumerate(self.members) if member.run.is_measured(member.state.epochs)]
        measurements = [self._evaluate(split) for split in (self.data.train, self.data.test)] if due else []
        for place in due:
            (train_loss, train_mistakes), (test_loss, test_mistakes) = (
                (float(loss[place]), int(mistakes[place])) for loss, mistakes in measurements
            )
            self._record(self.members[place], (train_loss, train_mistakes, test_loss, test_mistakes))

    def _record(self, member: Member, measured: tuple[float, int, float, int]) -> None:
        """Record and report the epoch that ended."""
        state = member.state
        seconds = state.seconds - sum(epoch.seconds for epoch in state.history)
        state.clipped, clipped = 0, state.clipped
        if not np.isfinite(measured[0]):
            state.diverged = state.epochs
            return
        state.history.append(Epoch(state.epochs, *measured, clipped, seconds))
        self.report(methodcaller("epoch_ended", member.run, state.history[-1]))

    def _evaluate(self, split: Examples) -> tuple[torch.Tensor, torch.Tensor]:
        """Return each network's mean loss and number of mistakes over a whole split."""
        loss = mistakes = torch.zeros(len(self.members), dtype=torch.float64, device=self.device)
        for start in range(0, len(split), self.stack.rows):
            x, target = self.minibatch(split, np.arange(start, min(start + self.stack.rows, len(split))))
            more_loss, more_mistakes = self.stack.loss.sums(self.stack.outputs(x), target)
            loss, mistakes = loss + more_loss, mistakes + more_mistakes
        return loss / max(len(split), 1), mistakes

    def _done(self) -> list[int]:
        return [place for place, member in enumerate(self.members) if member.is_done]

    def _diverge(self, places: Sequence[int]) -> None:
        for place in places:
            self.members[place].state.diverged = self.members[place].state.epochs + 1
        self._drop(places)

    def _drop(self, places: Sequence[int]) -> None:
        """Take runs out of the stack and report their ends; the others are not affected."""
        if not places:
            return
        self._update_states()
        for place in places:
            member = self.members[place]
            state = member.state
            if len(places) < len(self.members):  # otherwise the stack is left to them
                state.weights, state.biases = [w.clone() for w in state.weights], [b.clone() for b in state.biases]
            self.outcomes[member.place] = Outcome(member.run, state)
            self.report(methodcaller("ended", self.outcomes[member.place]))
        left = [place for place in range(len(self.members)) if place not in places]
        self.members = [self.members[place] for place in left]
        if left:
            self.updater.keep(left)
            self._settle()

    def _update_states(self) -> None:
        for place, member in enumerate(self.members):
            member.state.weights, member.state.biases = self.stack.network(place)
            member.state.steps, member.state.clipped = self.steps, self.clipped[place]

    def _clock(self, started: float) -> float:
        """Add the time since `started` to all members, and return the current time."""
        now = time.monotonic()
        for member in self.members:
            member.state.seconds += now - started
        return now


def _stacked(members: Sequence[Member]) -> Iterator[tuple[list[torch.Tensor], list[torch.Tensor]]]:
    for layers in zip(*(member.layers for member in members), strict=True):
        yield [weight for weight, _ in layers], [bias for _, bias in layers]
