"""The digest of a file of tensors, by which a changed bit is noticed when the file is read."""

import hashlib
import json
from collections.abc import Mapping

import torch


def content_digest(header: Mapping[str, str], tensors: Mapping[str, torch.Tensor]) -> str:
    """Return the SHA-256 of a header and of the names, types, shapes and numbers of tensors on the CPU."""
    state = hashlib.sha256(json.dumps(dict(header), sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        state.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return state.hexdigest()
