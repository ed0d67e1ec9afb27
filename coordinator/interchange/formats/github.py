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
    listed = _issues(data)
    for place, issue in enumerate(listed):
        if "html_url" in issue:
            issue = _of_rest(issue, source)
        url, number = text_of(issue.get("url")), text_of(issue.get("number")) or place + 1
        if not url:
            raise ImportProblem(f"issue {number} has no url: ask for it (--json number,title,url,...)")
        if _PULL.search(url):
            source.leave_out("pull requests", text_of(issue.get("title")) or url)
        elif not text_of(issue.get("state")):
            raise ImportProblem(f"issue {number} has no state: ask for it (--json number,title,url,state,...)")
        elif last.get(url) != issue:  # pages may overlap
            last[url] = issue
            issues.append(issue)
    source.records = [_record(issue, source) for issue in issues]
    by_url = {record.id: record for record in source.records}
    for issue, record in zip(issues, source.records, strict=True):
        _link(issue, record, by_url, source)
    if len(listed) == _LISTED:
        source.remarks.append(
            f"exactly {_LISTED} issues came: gh prints no more without --limit (`gh api`: --paginate)"
        )
    return source


def _issues(data: bytes) -> list[dict[str, Any]]:
    """The objects of a list, a search, pages in a list (``--slurp``), or of several of these one after the other."""
    values: list[Any] = []
    for value in json_values(data):
        values += value if isinstance(value, list) else [value]
    flat = [each for value in values for each in (value if isinstance(value, list) else _items(value))]
    if not all(isinstance(issue, dict) and issue.keys() & {"number", "title", "url"} for issue in flat):
        raise ImportProblem("the file is not a list of issues, as `gh issue list --json ...` prints it")
    return flat


def _items(value: Any) -> list[Any]:
    return _list(value["items"]) if isinstance(value, dict) and "total_count" in value else [value]


def _of_rest(raw: dict[str, Any], source: ImportSource) -> dict[str, Any]:
    """An issue of the REST interface, as ``gh issue list`` prints it."""
    issue = {_REST.get(name, name): value for name, value in raw.items() if name != "url" and name not in _REST_ONLY}
    parent = text_of(issue.get("parent"))
    issue["parent"] = {
        "url": parent.replace("://api.github.com/repos/", "://github.com/").replace("/api/v3/repos/", "/")
    }
    summary = issue.pop("issue_dependencies_summary", None)
    if _of(summary, "total_blocked_by") or _of(summary, "total_blocking"):
        source.lost["dependencies, which this form only counts: take `gh issue list --json ...,blockedBy`"] += 1
    return issue


def _record(issue: dict[str, Any], source: ImportSource) -> SourceRecord:
    url = text_of(issue.get("url"))
    labels = [text_of(_of(label, "name")) or text_of(label) for label in _list(issue.get("labels"))]
    priority = next((match[1] for label in labels if (match := _PRIORITY.fullmatch(label.strip()))), "")
    milestone = text_of(_of(issue.get("milestone"), "title"))
    reason = text_of(issue.get("stateReason")).lower()
    for name, value in issue.items():
        source.lost[name] += name not in _READ and bool(value) and _of(value, "total_count") != 0
    return SourceRecord(
        url,
        text_of(issue.get("title")),
        text_of(issue.get("body")),
        status="not_planned" if reason in ("not_planned", "duplicate") else text_of(issue.get("state")),
        priority=priority,
        type=text_of(_of(issue.get("issueType"), "name")),
        tags=labels + ([f"milestone:{milestone}"] if milestone else []),
        url=url,
        updated=text_of(issue.get("updatedAt")),
        fields=assigned([text_of(_of(each, "login")) for each in _list(issue.get("assignees"))], source.lost),
        extra={"number": issue.get("number")},
    )


def _link(issue: dict[str, Any], record: SourceRecord, by_url: dict[str, SourceRecord], source: ImportSource) -> None:
    if isinstance(issue.get("parent"), dict):
        record.parent = text_of(issue["parent"].get("url")) or None
    for name in _LINKS:
        value = issue.get(name)
        nodes = _list(_of(value, "nodes")) if isinstance(value, dict) else _list(value)
        total = _of(value, "totalCount")
        if isinstance(total, int) and total > len(nodes):
            source.remarks.append(f"issue {issue.get('number')}: only {len(nodes)} of {total} {name} came")
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
