"""Where a task is computed."""

from multicause.backends import cuda

DEVICES = ("cpu", "cuda", "auto")


def task_device(device: str) -> str:
    """ "cpu" or "cuda"; "auto" takes a GPU where there is one, and a GPU that is asked for must be there."""
    if device not in DEVICES:
        raise ValueError(f"device must be 'cpu', 'cuda' or 'auto', got {device!r}.")
    if device == "auto":
        return "cuda" if cuda.problem() is None else "cpu"
    if device == "cuda":
        cuda.runtime()
    return device
