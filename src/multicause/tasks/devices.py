"""Where a task is computed."""

from multicause.backends import cuda
from multicause.estimators.devices import is_worth_it

DEVICES = ("cpu", "cuda", "auto")


def task_device(device: str) -> str:
    """What estimators are told, of which "auto" lets each decide by its data; a GPU that is asked for must be there."""
    if device not in DEVICES:
        raise ValueError(f"device must be 'cpu', 'cuda' or 'auto', got {device!r}.")
    if device == "cuda":
        cuda.runtime()
    return device


def is_on_gpu(device: str, n_rows: int, n_components: int) -> bool:
    """Whether all that is done with so many rows is done on a GPU."""
    if device == "auto":
        return is_worth_it(n_rows, n_components) and cuda.problem() is None
    return device == "cuda"
