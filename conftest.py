"""Set before any test module loads NumPy or Keras."""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # many small products: threads in them wait for one another
