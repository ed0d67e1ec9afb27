"""CSV files, by the names of their columns, which may repeat."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator
from datetime import UTC, datetime

from coordinator.interchange.files import text_of_bytes
from coordinator.interchange.model import ImportProblem

_MOST = 16 * 1024 * 1024
_FORMULA = "=+-@\t\r"


class CsvRow:
    """A row: the values of a column by its name, in any case."""

    def __init__(self, columns: dict[str, list[int]], titles: dict[str, str], cells: list[str]) -> None:
        self._columns, self._titles, self.cells = columns, titles, cells

    def all(self, name: str) -> list[str]:
        """The values that are not blank, of all columns of that name."""
        places = self._columns.get(name.lower(), ())
        return [cell for at in places if at < len(self.cells) and (cell := unguarded(self.cells[at]).strip())]

    def __getitem__(self, name: str) -> str:
        """The first value that is not blank; empty: there is none."""
        return next(iter(self.all(name)), "")

    def others(self, read: Collection[str]) -> list[str]:
        """The columns that have a value, and are none of these, as they are named there."""
        known = {name.lower() for name in read}
        return [title for name, title in self._titles.items() if name not in known and self[name]]


def rows(data: bytes, needed: tuple[str, ...]) -> Iterator[CsvRow]:
    """The rows of a file.

    Args:
        needed: columns that it must have; each row has a value in the first one.

    Raises:
        ImportProblem: it is not text, not CSV, or lacks a column; or rows have no value in the first one needed, or
            more cells than there are columns, so that some may be those of others.
    """
    text = text_of_bytes(data)
    csv.field_size_limit(_MOST)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns: dict[str, list[int]] = {}
    titles: dict[str, str] = {}
    wide, nameless = list[str](), list[str]()
    try:
        head = next(reader, [])
        for at, name in enumerate(head):
            columns.setdefault(name.strip().lower(), []).append(at)
            titles.setdefault(name.strip().lower(), name.strip())
        if missing := [name for name in needed if name.lower() not in columns]:
            raise ImportProblem(f"the file has no column {', '.join(map(repr, missing))}")
        for cells in reader:
            if len(cells) > len(head):
                wide.append(f"{CsvRow(columns, titles, cells)[needed[0]] or '?'} (line {reader.line_num})")
            elif any(cells):
                row = CsvRow(columns, titles, cells)
                if row[needed[0]]:
                    yield row
                else:
                    nameless.append(str(reader.line_num))
    except csv.Error as error:
        raise ImportProblem(f"line {reader.line_num}: {error}; is the file cut off?") from None
    faults = []
    if wide:
        why = "have more cells than there are columns, for a comma that is not in quotes, perhaps"
        faults.append(f"{len(wide)} rows {why}: {', '.join(wide)}")
    if nameless:
        faults.append(f"{len(nameless)} rows have no {needed[0]}: lines {', '.join(nameless)}")
    if faults:
        raise ImportProblem("; ".join(faults))


def unguarded(cell: str) -> str:
    """A cell without the quote that keeps spreadsheets from taking it for a formula."""
    return cell[1:] if len(cell) > 1 and cell[0] == "'" and cell[1] in _FORMULA else cell


def is_date(text: str) -> bool:
    """Whether this is a date in ISO 8601, or as JavaScript prints it (``Tue Mar 04 2025 09:12:33 GMT+0000 (...)``)."""
    try:
        datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        try:
            datetime.strptime(text.partition(" (")[0], "%a %b %d %Y %H:%M:%S GMT%z")
        except ValueError:
            return False
    return True
