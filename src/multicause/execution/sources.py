"""Data that are read by rows, never held whole: files, blocks, streams that can be read again, sparse counts."""

import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

_AT_ONCE = 4096  # rows that are read for a few of them
_KEPT_BYTES = 64 * 2**20  # of a stream, behind the row it was last asked for: threads do not ask in order


class RowSource(ABC):
    """A table of which slices of rows are read, as arrays of its `dtype`: all that chunks ask of their data.

    Single precision stays what it is; all other numbers become double precision.
    """

    ndim = 2
    has_gaps = False  # whether entries are missing: those who validate the rows say so

    def __init__(self, shape: tuple[int, int], dtype: Any):
        _refuse_other_kinds(np.dtype(dtype))
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = np.dtype(np.float32 if np.dtype(dtype) == np.float32 else np.float64)

    @abstractmethod
    def _read(self, start: int, stop: int) -> Any:
        """Some rows in a row, of any type of numbers."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        """A slice of rows, or the rows of given numbers."""
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            return np.ascontiguousarray(self._read(start, max(start, stop)), dtype=self.dtype)[::step]
        rows = np.asarray(key)
        return self._take(np.flatnonzero(rows) if rows.dtype == bool else rows)

    def _take(self, rows: np.ndarray) -> np.ndarray:
        taken = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        blocks = rows // _AT_ONCE
        for block in np.unique(blocks):
            wanted = np.flatnonzero(blocks == block)
            first, last = rows[wanted].min(), rows[wanted].max()
            taken[wanted] = self[first : last + 1][rows[wanted] - first]
        return taken

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows, for those who can only do with all of them."""
        return np.asarray(self[:], dtype=dtype)


class StoredRows(RowSource):
    """An array on disk that gives slices of its rows: a dataset of h5py, an array of Zarr, and their like."""

    def __init__(self, array: Any):
        super().__init__(array.shape, array.dtype)
        self._array = array

    def _read(self, start: int, stop: int) -> Any:
        return self._array[start:stop]


class MappedRows(RowSource):
    """A `numpy.memmap`: its pages are given back once they are read, so that they do not fill the memory."""

    def __init__(self, array: np.memmap):
        super().__init__(array.shape, array.dtype)
        self._array = array
        mapped = getattr(array, "_mmap", None)
        private = getattr(array, "mode", None) == "c"  # whose changes are nowhere else
        can_release = isinstance(mapped, mmap.mmap) and hasattr(mapped, "madvise") and not private
        self._mapped = mapped if can_release and array.flags.c_contiguous else None

    def _read(self, start: int, stop: int) -> np.ndarray:
        part = self._array[start:stop]
        rows = np.array(part, dtype=self.dtype, order="C", subok=False)
        if self._mapped is not None and rows.size:
            low, high = byte_bounds(part)
            base = np.frombuffer(self._mapped, dtype=np.uint8).ctypes.data
            first = (low - base) // mmap.PAGESIZE * mmap.PAGESIZE
            self._mapped.madvise(mmap.MADV_DONTNEED, first, high - base - first)
        return rows


class CsrRows(RowSource):
    """A sparse matrix: only the rows of a chunk are ever dense."""

    def __init__(self, matrix: Any):
        super().__init__(matrix.shape, matrix.dtype)
        self._matrix = matrix.tocsr()

    def _read(self, start: int, stop: int) -> np.ndarray:
        return self._matrix[start:stop].toarray()


class Blocks(RowSource):
    """A list of arrays, one below the other."""

    def __init__(self, blocks: Sequence[np.ndarray]):
        n_features = _common_width(blocks)
        self._ends = np.cumsum([len(block) for block in blocks])
        super().__init__((self._ends[-1], n_features), np.result_type(*blocks))
        self._blocks = list(blocks)

    def _read(self, start: int, stop: int) -> np.ndarray:
        parts = [np.empty((0, self.shape[1]), dtype=self.dtype)]
        for i in range(np.searchsorted(self._ends, start, side="right"), len(self._blocks)):
            first = int(self._ends[i]) - len(self._blocks[i])
            if first >= stop:
                break
            parts.append(self._blocks[i][max(start - first, 0) : stop - first])
        return np.concatenate(parts)


class Stream(RowSource):
    """What a function gives that returns a new iterator over blocks of rows each time: every pass calls it again."""

    def __init__(self, begin: Callable[[], Iterable[Any]]):
        self._begin, self._lock = begin, Lock()
        n_rows, n_features, kind = 0, None, np.dtype(np.float32)
        for block in self._blocks():
            n_features = _common_width([block], n_features)
            n_rows, kind = n_rows + len(block), np.result_type(kind, block.dtype)
        if n_features is None:
            raise ValueError(
                "X is a function whose iterator gave no block of rows. Give one that starts anew each time."
            )
        super().__init__((n_rows, n_features), kind)
        self._rewind()

    def _blocks(self) -> Iterator[np.ndarray]:
        given = self._begin()
        if not isinstance(given, Iterable):
            raise TypeError(
                f"X is a function that must return an iterator over blocks of rows. It returned {type(given).__name__}."
            )
        return (np.asarray(block) for block in given)

    def _rewind(self) -> None:
        self._coming, self._reached = self._blocks(), 0
        self._kept: list[tuple[int, np.ndarray]] = []  # blocks, each with the number of its first row

    def _read(self, start: int, stop: int) -> np.ndarray:
        with self._lock:
            if start < (self._kept[0][0] if self._kept else self._reached):
                self._rewind()
            while self._reached < stop:
                self._next_block(start)
            parts = [block[max(start - first, 0) : max(stop - first, 0)] for first, block in self._kept]
        return np.concatenate(parts) if parts else np.empty((0, self.shape[1]))

    def _next_block(self, start: int) -> None:
        block = next(self._coming, None)
        if block is None:
            raise ValueError(
                f"X gave {len(self):,} rows at first and {self._reached:,} when it was read again. A function given as "
                "X must return a new iterator over the same rows each time."
            )
        self._kept.append((self._reached, np.array(block, dtype=self.dtype)))
        self._reached += len(block)
        while self._kept[0][0] + len(self._kept[0][1]) <= start and self._kept_bytes() > _KEPT_BYTES:
            self._kept.pop(0)

    def _kept_bytes(self) -> int:
        return sum(block.nbytes for _, block in self._kept)


def _common_width(blocks: Sequence[np.ndarray], width: int | None = None) -> int:
    for i, block in enumerate(blocks):
        if block.ndim != 2 or (width is not None and block.shape[1] != width):
            wanted = "(n, n_features)" if width is None else f"(n, {width})"
            raise ValueError(
                f"X is given in blocks, which must be arrays of shape {wanted}. Block {i} has shape {block.shape}."
            )
        _refuse_other_kinds(block.dtype)
        width = block.shape[1]
    assert width is not None
    return width


def _refuse_other_kinds(dtype: np.dtype) -> None:
    """What is read by rows is converted without a look: words would fail late, imaginary parts vanish in silence."""
    if dtype.kind not in "fiub":
        raise ValueError(f"X must hold real numbers. Got values of type {dtype}; convert them first.")


def row_source(X: Any) -> RowSource | None:
    """What reads X by rows; None where X is in memory, or scikit-learn is to say what is wrong with it."""
    if isinstance(X, RowSource):
        return X
    if isinstance(X, np.memmap):
        return MappedRows(X) if X.ndim == 2 and X.dtype.kind in "fiub" else None
    if isinstance(X, (list, tuple)):
        in_blocks = len(X) > 0 and all(isinstance(block, np.ndarray) and block.ndim == 2 for block in X)
        return Blocks(X) if in_blocks else None
    if callable(X) and not hasattr(X, "shape"):
        return Stream(X)
    if isinstance(X, Iterator):
        raise TypeError(
            f"X is a {type(X).__name__}, which can be read once, but a fit reads its data in every iteration. Give a "
            "function that returns a new iterator each time, a list of arrays, or each block to partial_fit; or write "
            "the blocks to a file and give a numpy.memmap."
        )
    if _is_dask(X):
        from multicause.execution.dask_cluster import DaskRows

        return DaskRows(X)
    return StoredRows(X) if _is_stored(X) else None


def _is_dask(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "rechunk")


def _is_stored(X: Any) -> bool:
    try:
        shape, dtype = getattr(X, "shape", None), getattr(X, "dtype", None)
    except (RuntimeError, ValueError, OSError) as error:  # as h5py has it
        raise ValueError(f"X cannot be read: {error}. Keep its file open while it is in use.") from error
    by_rows = not isinstance(X, np.ndarray) and hasattr(X, "__getitem__")
    table = isinstance(shape, tuple) and len(shape) == 2 and all(isinstance(n, int) for n in shape)
    return by_rows and table and isinstance(dtype, np.dtype) and dtype.kind != "O" and not hasattr(X, "tocsr")
