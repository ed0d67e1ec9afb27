"""Linear: its export of issues as CSV."""

from __future__ import annotations

from coordinator.interchange.formats import assigned, states
from coordinator.interchange.formats.tables import CsvRow, is_date, rows
from coordinator.interchange.model import ImportSource, SourceRecord, State, sections

# Names of statuses are custom, so done and cancelled are told by dates.
STATES = states({
    "queue": ("", "backlog", "todo", "triage"),
    "in-progress": ("in progress", "in review"),
    "done": ("done",),
    "cancelled": ("canceled", "cancelled", "duplicate"),
})  # fmt: skip
_KEPT = ("ID", "Team", "Estimate", "Project", "Initiatives", "Duplicate of")
_READ = {*_KEPT, "UUID", "Title", "Description", "Status", "Priority", "Labels", "Completed", "Canceled", "URL"}
_READ |= {"Assignee", "Parent issue", "Blocked by", "Related to"}


def read(data: bytes) -> ImportSource:
    """Reads an export. Raises ImportProblem: it is none."""
    source = ImportSource()
    ids: dict[str, str] = {}
    issues = list(rows(data, ("ID", "Title", "Status")))
    for row in issues:
        ids[row["ID"]] = row["UUID"] or row["ID"]
    for row in issues:
        source.records.append(_record(row, ids, source))
    return source


def _record(row: CsvRow, ids: dict[str, str], source: ImportSource) -> SourceRecord:
    source.lost.update(row.others(_READ))
    ended: State | None = "cancelled" if is_date(row["Canceled"]) else "done" if is_date(row["Completed"]) else None
    estimate = row["Estimate"]

    def others(name: str) -> list[str]:
        return [ids.get(ref.strip(), ref.strip()) for ref in row[name].split(",") if ref.strip()]

    return SourceRecord(
        ids[row["ID"]],
        row["Title"],
        sections(("", row["Description"])),
        status="" if ended else row["Status"],
        state=ended,
        priority=row["Priority"],
        complexity=float(estimate) if estimate.replace(".", "", 1).isdecimal() else None,
        tags=[label for label in row["Labels"].split(", ") if label],
        parent=next(iter(others("Parent issue")), None),
        blockers=others("Blocked by"),
        related=others("Related to") + others("Duplicate of"),
        url=row["URL"],
        updated=row["Updated"],
        fields=assigned([row["Assignee"]], source.lost),
        extra={name.lower(): row[name] for name in _KEPT if row[name]},
    )
