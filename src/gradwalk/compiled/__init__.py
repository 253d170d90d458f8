"""The passes of a stack of networks in machine code, which Numba compiles for the processor at hand.

Optional: with Numba (`pip install gradwalk[compiled]`), on x86 processors that have AVX2 and FMA.
"""

from functools import lru_cache
from importlib.util import find_spec


@lru_cache(maxsize=1)
def available() -> bool:
    """Return whether there is a Numba, and a processor that the code is written for."""
    if find_spec("numba") is None:
        return False
    from gradwalk.compiled.vectors import SERVES

    return SERVES
