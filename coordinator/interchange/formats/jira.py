"""Jira: its export of issues as CSV. Columns repeat, one for each value."""

from __future__ import annotations

import re

from coordinator.interchange.formats import assigned, states
from coordinator.interchange.formats.tables import CsvRow, rows
from coordinator.interchange.model import ImportSource, SourceRecord, State, sections

STATES = states({
    "queue": ("", "open", "to do", "backlog", "selected for development", "reopened"),
    "in-progress": ("in progress", "in review"),
    "blocked": ("blocked", "on hold"),
    "done": ("done", "closed", "resolved"),
    "cancelled": ("cancelled", "canceled", "won't do"),
})  # fmt: skip
_REFUSED = ("won't do", "won't fix", "wont fix", "duplicate", "cannot reproduce", "declined", "invalid")
_KEPT = ("Issue key", "Project key", "Fix Version/s", "Fix versions", "Component/s", "Components", "Resolution")
_PARENTS = ("Parent", "Parent id", "Parent key", "Custom field (Epic Link)")
_LINK = re.compile(r"(outward|inward) issue link \((.*)\)")
_WAITS = {"inward": ("blocks", "blocker", "gantt: finish to start"), "outward": ("depends on", "dependency", "depends")}
"""Types of links by which an issue waits for the one that it names: at the inward end, or at the outward one."""
_READ = {*_KEPT, *_PARENTS, "Issue id", "Summary", "Status", "Status Category", "Description", "Environment"}
_READ |= {"Priority", "Assignee", "Issue Type", "Labels", "Comment"}
# Other columns say the same as these.
_READ |= {"Project name", "Project type", "Project lead", "Project lead id", "Project description", "Project url"}
_READ |= {"Parent summary", "Status Category Changed", "Assignee Id", "Reporter Id", "Creator Id", "Watchers Id"}


def read(data: bytes) -> ImportSource:
    """Reads an export. Wiki markup of descriptions stays as it is. Raises ImportProblem: it is none."""
    source = ImportSource()
    issues = list({tuple(row.cells): row for row in rows(data, ("Issue key", "Summary", "Status"))}.values())
    # A parent may be named by the number of the issue, which is not its key.
    keys = {row["Issue id"]: row["Issue key"] for row in issues if row["Issue id"]}
    source.records = [_record(row, keys, source) for row in issues]
    records = {record.id: record for record in source.records}
    for row, record in zip(issues, source.records, strict=True):
        _link(row, record, records, source)
    return source


def _link(row: CsvRow, record: SourceRecord, records: dict[str, SourceRecord], source: ImportSource) -> None:
    """Adds what the links of a row say; those whose type is not known are kept as relations, and said."""
    for column in row.others(_READ):
        match = _LINK.fullmatch(column.lower())
        if match is None:
            source.lost[column] += 1
            continue
        end, kind = match.groups()
        for other in row.all(column):
            if kind in _WAITS[end]:
                record.blockers.append(other)
            elif kind in (*_WAITS["inward"], *_WAITS["outward"]):
                if other in records:
                    records[other].blockers.append(record.id)
            else:
                record.related.append(other)
                if kind != "relates":
                    source.lost[f"{column}: RELATES_TO, it holds nothing back"] += 1


def _record(row: CsvRow, keys: dict[str, str], source: ImportSource) -> SourceRecord:
    parent = next((row[name] for name in _PARENTS if row[name]), "")
    resolution = row["Resolution"].lower()
    refused = resolution in _REFUSED
    status = row["Status"]
    state: State | None = "cancelled" if refused else None
    if state is None and status.lower() not in STATES:  # one of their own: what else says whether it is closed?
        resolved = resolution not in ("", "unresolved")
        state = "done" if resolved else STATES.get(row["Status Category"].lower() or "?")
    comments = row.all("Comment")
    if comments:
        source.lost["authors and times of comments: kept as one note"] += 1
    return SourceRecord(
        row["Issue key"],
        row["Summary"],
        sections(("", row["Description"]), ("Environment", row["Environment"])),
        status="" if refused else status,
        state=state,
        priority=row["Priority"],
        type=row["Issue Type"],
        tags=row.all("Labels"),
        updated=row["Updated"],
        parent=keys.get(parent, parent) or None,
        notes={"comments": "\n\n".join(comments)} if comments else {},
        fields=assigned([row["Assignee"]], source.lost),
        extra={name.lower(): row[name] for name in _KEPT if row[name]},
    )
