"""The rows of `stack` that show how near a stack is to its limits, in a few minutes: the peak, one loop per core."""

from collections.abc import Sequence

from setting import Answer, main
from stack import PARTS, against


def measure(quick: bool, parts: Sequence[str]) -> Answer:
    """Return rates and ratios of these sides at these shapes."""
    return against(("peak", "processes"), quick, parts)


if __name__ == "__main__":
    main(__doc__, measure, PARTS)
