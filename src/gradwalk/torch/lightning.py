"""`Monitor` as a Lightning callback: `Trainer(callbacks=[MonitorCallback(every=100)])`."""

from typing import Any

try:
    import lightning
except ModuleNotFoundError as error:
    message = "gradwalk.torch.lightning needs Lightning: pip install lightning"
    raise ModuleNotFoundError(message, name="lightning") from error

from gradwalk import checks
from gradwalk.torch.monitor import Monitor, summary


class MonitorCallback(lightning.Callback):
    """Records the walk of the gradient at every n-th backward pass; see `gradwalk.torch.Monitor`.

    The final, lowest and highest log-norm of each record and its least number of directions go to the trainer's loggers
    under `tag`; `monitor` holds all records after training. Where gradients are accumulated over batches, each batch
    counts as a step.
    """

    def __init__(self, every: int = 100, *, tag: str = "gradwalk") -> None:
        super().__init__()
        self.every, self.tag = checks.whole("MonitorCallback", "every", every), tag
        self.monitor: Monitor | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Attach the monitor to the module."""
        self.monitor = Monitor(pl_module, self.every, tag=self.tag)

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        """Record the step if it is an n-th one, and pass its summary to the loggers."""
        record = self.monitor.step() if self.monitor is not None else None
        if record is None:
            return
        for logger in trainer.loggers:
            logger.log_metrics({f"{self.tag}/{k}": v for k, v in summary(record).items()}, step=record.step)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Remove the hooks."""
        if self.monitor is not None:
            self.monitor.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Remove the hooks."""
        self.on_train_end(trainer, pl_module)
