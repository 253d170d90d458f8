"""The rows of `stack` that show how near a stack is to its limits, in a few minutes: the peak, one loop per core."""

from setting import Answer, main
from stack import against


def measure(quick: bool) -> Answer:
    """Return rates and ratios of these sides at all shapes."""
    return against(("peak", "processes"), quick)


if __name__ == "__main__":
    main(__doc__, measure)
