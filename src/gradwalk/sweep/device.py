"""The torch device on which a sweep trains: whether it exists, and its free memory."""

import psutil
import torch


def check_device(device: str) -> str:
    """Return the name of a device if torch can train on it, or raise an error."""
    try:
        if torch.empty(0, device=device).device.type == "meta":
            raise RuntimeError("meta tensors have no data")
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built with CUDA
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"sweep: device must be one that torch can use here, such as 'cpu', got device={device!r} ({reason})"
        ) from None
    return device


def free_memory(device: str) -> float:
    """Return the free bytes of a device; the memory of a device other than a CUDA one is that of the machine."""
    if torch.device(device).type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return float(psutil.virtual_memory().available)
