"""GitHub: ``gh issue list --json number,title,body,state,stateReason,labels,milestone,url,...``, and ``gh api``."""

from __future__ import annotations

import re
from typing import Any

from coordinator.interchange.formats import assigned
from coordinator.interchange.formats.lines import json_values
from coordinator.interchange.model import ImportProblem, ImportSource, SourceRecord, State, text_of

STATES: dict[str, State] = {"": "queue", "open": "queue", "closed": "done", "not_planned": "cancelled"}
_LISTED = 30
_PRIORITY = re.compile(r"(?:priority[ :/_-]*)?(p[0-4]|critical|highest|urgent|high|medium|normal|low|lowest)", re.I)
_PULL = re.compile(r"/pull/\d+$")
_LINKS = ("subIssues", "blockedBy", "blocking")
_READ = {*_LINKS, "number", "title", "body", "state", "stateReason", "labels", "milestone", "assignees", "url"}
_READ |= {"parent", "issueType"}
_READ |= {"id", "closed", "isPinned"}  # other members say the same
_REST = {
    "html_url": "url",
    "state_reason": "stateReason",
    "type": "issueType",
    "updated_at": "updatedAt",
    "parent_issue_url": "parent",
}
"""Members as the REST interface has them."""
_REST_ONLY = {"node_id", "repository_url", "labels_url", "comments_url", "events_url", "timeline_url", "repository"}
_REST_ONLY |= {"pull_request", "author_association", "assignee", "sub_issues_summary", "score"}


def read(data: bytes) -> ImportSource:
    """Reads a list of issues. Raises ImportProblem: it is none."""
    source = ImportSource()
    issues = list[dict[str, Any]]()
    last: dict[str, dict[str, Any]] = {}
    found = _issues(data)
    for place, one in enumerate(found):
        if "html_url" in one:
            one = _of_rest(one, source)
        url, number = text_of(one.get("url")), text_of(one.get("number")) or place + 1
        if not url:
            raise ImportProblem(f"issue {number} has no url: ask for it (--json number,title,url,...)")
        if _PULL.search(url):
            source.leave_out("pull requests", text_of(one.get("title")) or url)
        elif not text_of(one.get("state")):
            raise ImportProblem(f"issue {number} has no state: ask for it (--json number,title,url,state,...)")
        elif last.get(url) != one:  # pages may overlap
            last[url] = one
            issues.append(one)
    source.records = [_record(one, source) for one in issues]
    by_url = {one.id: one for one in source.records}
    for one, record in zip(issues, source.records, strict=True):
        _link(one, record, by_url, source)
    if len(found) == _LISTED:
        source.remarks.append(
            f"exactly {_LISTED} issues came: gh prints no more without --limit (`gh api`: --paginate)"
        )
    return source


def _issues(data: bytes) -> list[dict[str, Any]]:
    """The objects of a list, a search, pages in a list (``--slurp``), or of several of these one after the other."""
    found: list[Any] = []
    for value in json_values(data):
        found += value if isinstance(value, list) else [value]
    flat = [each for one in found for each in (one if isinstance(one, list) else _items(one))]
    if not all(isinstance(one, dict) and one.keys() & {"number", "title", "url"} for one in flat):
        raise ImportProblem("the file is not a list of issues, as `gh issue list --json ...` prints it")
    return flat


def _items(one: Any) -> list[Any]:
    return _list(one["items"]) if isinstance(one, dict) and "total_count" in one else [one]


def _of_rest(one: dict[str, Any], source: ImportSource) -> dict[str, Any]:
    """An issue of the REST interface, as ``gh issue list`` prints it."""
    issue = {_REST.get(name, name): value for name, value in one.items() if name != "url" and name not in _REST_ONLY}
    parent = text_of(issue.get("parent"))
    issue["parent"] = {
        "url": parent.replace("://api.github.com/repos/", "://github.com/").replace("/api/v3/repos/", "/")
    }
    summary = issue.pop("issue_dependencies_summary", None)
    if _of(summary, "total_blocked_by") or _of(summary, "total_blocking"):
        source.lost["dependencies, which this form only counts: take `gh issue list --json ...,blockedBy`"] += 1
    return issue


def _record(one: dict[str, Any], source: ImportSource) -> SourceRecord:
    url = text_of(one.get("url"))
    labels = [text_of(_of(label, "name")) or text_of(label) for label in _list(one.get("labels"))]
    priority = next((match[1] for label in labels if (match := _PRIORITY.fullmatch(label.strip()))), "")
    milestone = text_of(_of(one.get("milestone"), "title"))
    reason = text_of(one.get("stateReason")).lower()
    for name, value in one.items():
        source.lost[name] += name not in _READ and bool(value) and _of(value, "total_count") != 0
    return SourceRecord(
        url,
        text_of(one.get("title")),
        text_of(one.get("body")),
        status="not_planned" if reason in ("not_planned", "duplicate") else text_of(one.get("state")),
        priority=priority,
        type=text_of(_of(one.get("issueType"), "name")),
        tags=labels + ([f"milestone:{milestone}"] if milestone else []),
        url=url,
        updated=text_of(one.get("updatedAt")),
        fields=assigned([text_of(_of(each, "login")) for each in _list(one.get("assignees"))], source.lost),
        extra={"number": one.get("number")},
    )


def _link(one: dict[str, Any], record: SourceRecord, by_url: dict[str, SourceRecord], source: ImportSource) -> None:
    if isinstance(one.get("parent"), dict):
        record.parent = text_of(one["parent"].get("url")) or None
    for name in _LINKS:
        value = one.get(name)
        nodes = _list(_of(value, "nodes")) if isinstance(value, dict) else _list(value)
        total = _of(value, "totalCount")
        if isinstance(total, int) and total > len(nodes):
            source.remarks.append(f"issue {one.get('number')}: only {len(nodes)} of {total} {name} came")
        for url in filter(None, (text_of(_of(node, "url")) for node in nodes)):
            if name == "blockedBy":
                record.blockers.append(url)
            elif url in by_url and name == "blocking":
                by_url[url].blockers.append(record.id)
            elif url in by_url:
                by_url[url].parent = record.id


def _of(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
