"""The passes of a stack of networks in machine code, which Numba compiles for the processor at hand.

Optional: with Numba (`pip install "gradwalk[compiled]"`), on x86 processors that have AVX2 and FMA. The first training
compiles for about ten seconds; Numba keeps the result on disk.
"""

from functools import lru_cache
from importlib.util import find_spec


@lru_cache(maxsize=1)
def available() -> bool:
    """Return whether there is a Numba that works here, and a processor that the code is written for."""
    if find_spec("numba") is None:
        return False
    try:
        from gradwalk.compiled.vectors import SERVES
    except ImportError:  # of a NumPy that is too new for it
        return False
    return SERVES
