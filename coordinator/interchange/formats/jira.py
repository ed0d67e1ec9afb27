"""Jira: its export of issues as CSV. Columns repeat, one for each value."""

from __future__ import annotations

from coordinator.interchange.formats.tables import Row, rows
from coordinator.interchange.model import Record, Source, State, sections

STATES: dict[str, State] = {
    "": "queue",
    "open": "queue",
    "to do": "queue",
    "backlog": "queue",
    "selected for development": "queue",
    "reopened": "queue",
    "in progress": "in-progress",
    "in review": "in-progress",
    "blocked": "blocked",
    "on hold": "blocked",
    "done": "done",
    "closed": "done",
    "resolved": "done",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "won't do": "cancelled",
}
_REFUSED = ("won't do", "won't fix", "wont fix", "duplicate", "cannot reproduce", "declined", "invalid")
_LOST = (
    "Assignee",
    "Reporter",
    "Creator",
    "Created",
    "Updated",
    "Due date",
    "Votes",
    "Watchers",
    "Attachment",
    "Sprint",
)
_KEPT = ("Issue key", "Project key", "Fix Version/s", "Component/s", "Resolution")


def read(data: bytes) -> Source:
    """Reads an export. Wiki markup of descriptions stays as it is.

    Raises:
        ImportProblem: it is none.
    """
    source = Source()
    found = list({tuple(row.cells): row for row in rows(data, ("Issue key", "Summary", "Status"))}.values())
    # A parent may be named by the number of the issue, which is not its key.
    keys = {row["Issue id"]: row["Issue key"] for row in found if row["Issue id"]}
    source.records = [_record(row, keys, source) for row in found]
    records = {one.id: one for one in source.records}
    for row, record in zip(found, source.records, strict=True):
        for other in row.all("Outward issue link (Blocks)"):
            if other in records:
                records[other].blockers.append(record.id)
    return source


def _record(row: Row, keys: dict[str, str], source: Source) -> Record:
    for name in _LOST:
        source.lost[name] += bool(row[name])
    parent = row["Parent"] or row["Parent id"] or row["Custom field (Epic Link)"]
    refused = row["Resolution"].lower() in _REFUSED
    comments = row.all("Comment")
    if comments:
        source.lost["authors and times of comments: kept as one note"] += 1
    return Record(
        row["Issue key"],
        row["Summary"],
        sections(("", row["Description"]), ("Environment", row["Environment"])),
        status="" if refused else row["Status"],
        state="cancelled" if refused else None,
        priority=row["Priority"],
        type=row["Issue Type"],
        tags=row.all("Labels"),
        updated=row["Updated"],
        parent=keys.get(parent, parent) or None,
        blockers=row.all("Inward issue link (Blocks)"),
        related=row.all("Outward issue link (Relates)") + row.all("Inward issue link (Relates)"),
        notes={"comments": "\n\n".join(comments)} if comments else {},
        extra={name.lower(): row[name] for name in _KEPT if row[name]},
    )
