"""How the code of documents and notebooks is run, and whether what it prints is what they show.

Numbers may differ by one unit in the last place, whole numbers not at all, percentages by five: those belong to trained
networks, whose errors depend on the last bits of a machine's matrix products. `...` stands for anything.
"""

import contextlib
import math
import re
import sys

NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?%?(?!\w)")


@contextlib.contextmanager
def torch_seed_restored():
    """Undo what a block does to torch's global seed."""
    torch = sys.modules.get("torch")
    with torch.random.fork_rng() if torch else contextlib.nullcontext():
        yield


def differences(shown: str, printed: str) -> list[str]:
    """Return where the printed text differs from the shown one."""
    expected, actual = (
        "\n".join(" ".join(line.split()) for line in text.strip().splitlines()) for text in (shown, printed)
    )
    words = [".*".join(map(re.escape, part.split("..."))) for part in NUMBER.split(expected)]
    match = re.fullmatch(f"({NUMBER.pattern})".join(words), actual, re.DOTALL)
    if match is None:
        return [f"shown:\n{expected}\nprinted:\n{actual}"]
    pairs = zip(NUMBER.findall(expected), match.groups(), strict=True)
    return [f"{number} is shown, {value} was printed" for number, value in pairs if not same(number, value)]


def same(shown: str, printed: str) -> bool:
    """Whether two numbers agree: whole ones exactly, percentages within 5, others to a unit in the last place."""
    if re.fullmatch(r"[-+\d,]+", shown):
        return shown == printed
    expected, actual = (float(number.rstrip("%").replace(",", "")) for number in (shown, printed))
    digits, _, power = shown.rstrip("%").partition("e")
    unit = 5.0 if shown.endswith("%") else 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return math.isclose(expected, actual, rel_tol=1e-6, abs_tol=1.001 * unit)
