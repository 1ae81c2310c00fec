"""Tables of numbers as text: commas, semicolons or tabs between them, decimal points or commas, gaps, a header."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from multicause.file_checks import TableError, one_line

DELIMITERS = (";", "\t", ",")  # in the order in which they are looked for: a decimal comma is no delimiter
WITHOUT_INDEX = "pandas: to_csv(index=False)"


class Dialect(NamedTuple):
    """How a file is written."""

    delimiter: str
    names: list[str] | None
    first_line: int  # how many lines the header takes, with those above it
    has_index: bool = False  # whether the first column, which has no name, numbers the rows


def read_csv(path: Path) -> tuple[np.ndarray, list[str] | None]:
    """The numbers, NaN where a cell is empty, and the names of the columns."""
    try:
        dialect = _dialect(path)
        try:
            X = np.loadtxt(
                path, delimiter=dialect.delimiter, skiprows=dialect.first_line, quotechar='"', comments=None, ndmin=2,
                encoding="utf-8-sig",
            )  # fmt: skip
        except ValueError:  # gaps, decimal commas, or no table of numbers: cell by cell, which takes longer
            X = _read_cells(path, dialect)
    except UnicodeDecodeError as error:
        raise TableError(
            f"'{path}' is not text in UTF-8: {error.reason} at byte {error.start}. Save it as UTF-8."
        ) from error
    except MemoryError as error:
        raise TableError(f"'{path}' cannot be read: {one_line(error):.300}") from error
    return _without_index(path, X, dialect)


def check_header(names: Sequence[str] | None) -> None:
    """Refuse names that would not be read as names."""
    for name in names or []:
        if is_number(name) or not name.strip():
            raise TableError(f"column_names must not hold {name!r}: in a .csv header it reads as data. Say 'x{name}'.")


def write_csv(handle: BinaryIO, array: np.ndarray, names: Sequence[str] | None) -> None:
    """Numbers between commas, to the last bit."""
    table = array.reshape(len(array), -1)
    table = table.astype(np.int8) if table.dtype == bool else table
    text = io.TextIOWrapper(handle, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([names] if names else [])
    writer.writerows(row.astype(str) for row in table)  # the shortest text that reads back as the same number
    text.flush()
    text.detach()


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # float("1_000") is Python's notation, not a table's


def _rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The line number and the cells of each line that is not blank."""
    with open(path, encoding="utf-8-sig", newline="") as handle:
        reader = csv.reader(handle, delimiter=delimiter)
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
        except csv.Error as error:
            raise TableError(f"'{path}' cannot be read: {one_line(error)} in line {reader.line_num}.") from error


def _dialect(path: Path) -> Dialect:
    delimiter = _delimiter(path)
    rows = _rows(path, delimiter)
    line, first = next(rows, (0, []))
    if not first:
        raise TableError(f"The file '{path}' is empty.")
    if any(_is_cell(cell, delimiter) for cell in first) and not _counts_columns(first):
        return Dialect(delimiter, None, 0)
    if next(rows, None) is None:
        raise TableError(f"'{path}' holds a header, but no row of numbers.")
    names = [name.strip() for name in first]
    unnamed = [column for column, name in enumerate(names, start=1) if not name]
    if unnamed and (unnamed != [1] or len(names) == 1):
        raise TableError(
            f"'{path}' has no name for column {unnamed[-1]} in its header, line {line}. Name it, "
            f"or leave it out if it numbers the rows ({WITHOUT_INDEX})."
        )
    return Dialect(delimiter, names, line, has_index=bool(unnamed))


def _delimiter(path: Path) -> str:
    """What the first line that is not blank has between its cells, outside of quotes."""
    with open(path, encoding="utf-8-sig", newline="") as handle:
        first = next((line for line in handle if line.strip()), "")
    outside = "".join(first.split('"')[::2])
    return next((delimiter for delimiter in DELIMITERS if delimiter in outside), ",")


def _counts_columns(cells: list[str]) -> bool:
    """Whether a first line merely numbers three or more columns, 0, 1, 2, … or 1, 2, 3, …: a header without names."""
    numbers = [str(i) for i in range(len(cells) + 1)]
    return len(cells) > 2 and [cell.strip() for cell in cells] in (numbers[:-1], numbers[1:])


def _read_cells(path: Path, dialect: Dialect) -> np.ndarray:
    """The numbers cell by cell: an empty one is NaN, and decimal commas are read where commas do not part cells."""
    data = ((line, cells) for line, cells in _rows(path, dialect.delimiter) if line > dialect.first_line)
    head = [(dialect.first_line, dialect.names)] if dialect.names is not None else []
    values, first_line, width = [], 0, 0
    for line, cells in chain(head, data):
        first_line, width = (first_line, width) if width else (line, len(cells))
        if len(cells) != width:
            raise TableError(f"'{path}' has {len(cells)} columns in line {line}, but {width} in line {first_line}.")
        if line > dialect.first_line:
            values.append([_value(path, cell, line, column, dialect) for column, cell in enumerate(cells, start=1)])
    return np.array(values, dtype=np.float64)


def _value(path: Path, cell: str, line: int, column: int, dialect: Dialect) -> float:
    text = cell.strip()
    if not text:
        return np.nan
    text = text if dialect.delimiter == "," or "." in text else text.replace(",", ".", 1)
    if not is_number(text):
        raise TableError(
            f"'{path}' has in line {line}, column {column} {cell!r:.80}, which is not a number."
            + _hint_of_text(cell, column)
        )
    return float(text)


def _is_cell(cell: str, delimiter: str) -> bool:
    return is_number(cell if delimiter == "," or "." in cell else cell.replace(",", ".", 1))


def _hint_of_text(cell: str, column: int) -> str:
    if cell.strip().count(" ") and all(is_number(part) for part in cell.split()):
        return " Put commas, semicolons or tabs between the numbers, not blanks."
    if column == 1:
        return f" If the first column names the rows, leave it out ({WITHOUT_INDEX})."
    return " Write nan, or nothing, for a missing value; leave columns of text out."


def _without_index(path: Path, X: np.ndarray, dialect: Dialect) -> tuple[np.ndarray, list[str] | None]:
    """Leave out a first column without a name that only numbers the rows, as pandas writes it."""
    if not dialect.has_index or dialect.names is None:
        return X, dialect.names
    if len(X) and not np.array_equal(X[:, 0] - X[0, 0], np.arange(len(X))):
        raise TableError(
            f"'{path}' has no name for column 1 in its header, line {dialect.first_line}. Name it, "
            f"or leave it out if it numbers the rows ({WITHOUT_INDEX})."
        )
    warnings.warn(
        f"The first column of '{path}' has no name and numbers the rows: it is left out ({WITHOUT_INDEX}).",
        stacklevel=4,
    )
    return X[:, 1:], dialect.names[1:]
