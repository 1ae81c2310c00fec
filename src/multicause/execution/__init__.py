"""Where chunks of data run. The one verb is map_reduce(task, chunks, combine)."""

from multicause.execution.chunks import Chunk, chunks_of, split
from multicause.execution.executors import executor_for, on, reader_for
from multicause.execution.in_process import InProcess
from multicause.execution.on_device import OnDevice
from multicause.execution.sources import RowSource, row_source

__all__ = [
    "Chunk",
    "InProcess",
    "OnDevice",
    "RowSource",
    "chunks_of",
    "executor_for",
    "on",
    "reader_for",
    "row_source",
    "split",
]
