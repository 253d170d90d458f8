"""What pooling and dropout do to the norm of a gradient on its way back."""

import math
from collections.abc import Mapping
from typing import Any

from gradwalk.torch.signals import Note


def dropout_rate(kind: str, settings: Mapping[str, Any]) -> float | None:
    """Return the rate of a dropout that zeroes single units, None for one of channels or with another law."""
    rate = settings.get("p", 0.5)
    return float(rate) if kind in ("Dropout", "dropout") and isinstance(rate, int | float) else None


def log_pooled(kind: str, settings: Mapping[str, Any], shrinkage: float | None) -> tuple[float, Note | None]:
    """Return ln of the factor on the norm, and the note where it is not counted.

    An average over k positions hands each of them delta / k, so that |delta|^2 is divided by k; a sum multiplies it by
    k. `shrinkage` is k where the sizes are known.

    >>> log_pooled("AvgPool2d", {"kernel_size": 2, "stride": 2}, None) == (-math.log(2), None)
    True
    """
    kind = kind.lower()
    if "max" in kind:
        return 0.0, Note.MAX_POOLING
    positions = _kernel(kind, settings) or shrinkage
    if not positions or not ("avg" in kind or kind in ("mean", "sum")):
        return 0.0, Note.RESAMPLED
    return (0.5 if kind == "sum" else -0.5) * math.log(positions), None


def _kernel(kind: str, settings: Mapping[str, Any]) -> float | None:
    """Return how many positions a pooling of fixed size averages."""
    size = settings.get("kernel_size")
    if "adaptive" in kind or not isinstance(size, int | tuple):
        return None
    axes = int(kind[-2]) if kind[-1] == "d" and kind[-2].isdigit() else 1
    return float(math.prod(size) if isinstance(size, tuple) else size**axes)
