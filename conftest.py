"""Set before any test module loads NumPy or Keras; one thread for torch; and no test that reads the clock."""

import os
import sys

import pytest
from hypothesis import settings

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # many small products: threads in them wait for one another

settings.register_profile("gradwalk", deadline=None)  # a slow machine fails no test
settings.load_profile("gradwalk")


@pytest.fixture(autouse=True)
def _one_thread():
    """Small networks run faster on one thread of torch, and the machine's others stay free for the sampler."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
