"""What a request of the change feed asks for: its path, query and headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl

from coordinator.errors import ToolFailure, invalid
from coordinator.feed import Cursor, parse
from coordinator.feed.filters import ANY, Filter, forms, ids_of, kinds_of
from coordinator.feed.kinds import KINDS
from coordinator.transport.http.media import STREAM, accepted
from coordinator.transport.http.replies import Refused

PREFIX = "/feed"
LONGEST_WAIT_MS = 50_000
MOST_LIMIT = 1_000
_LIMIT = 100
_PARAMETERS = ("after", "kinds", "id", "root", "waitMs", "limit")
_LISTS = ("kinds", "id", "root")
_MOST_PARAMETERS = 600


class FeedRequest(NamedTuple):
    """A request that is well-formed."""

    project: str
    filter: Filter
    needed: frozenset[str]
    """The toolsets of the kinds that it names; empty: it names none."""
    after: Cursor | None
    """From where on; None: from now on."""
    ids: tuple[tuple[str, ...], ...]
    """The ids of its filter ``id``, each in its forms; what they are is to be checked."""
    stream: bool
    """Whether it is answered with an event stream; else with JSON."""
    wait_ms: int
    """For how long an answer in JSON may wait for the first event."""
    limit: int
    """The most events of an answer in JSON."""

    @property
    def named(self) -> list[str]:
        """All ids that its filter names, roots too, in each of their forms."""
        return [form for group in self.ids for form in group] + list(self.filter.roots)


def is_feed(path: str) -> bool:
    return path == PREFIX or path.startswith(PREFIX + "/")


def read_request(path: str, query: bytes, head: Mapping[bytes, bytes]) -> FeedRequest:
    """Reads a request.

    Raises:
        ToolFailure: VALIDATION_ERROR: a parameter is unknown or malformed.
        Refused: 404: there is no such path. 406: the client accepts neither form of answer, or not the one asked for.
    """
    project = path.removeprefix(PREFIX).strip("/")
    if not project or "/" in project:
        raise Refused(404, f"unknown path; the feed of a project is {PREFIX}/<project>")
    parameters = _parameters(query)
    wait_ms = _number(parameters, "waitMs", 0, LONGEST_WAIT_MS)
    takes = accepted(head.get(b"accept"))
    stream = wait_ms is None and 0 < takes.stream >= takes.json
    limit = _number(parameters, "limit", 1, MOST_LIMIT)
    if stream and limit is not None:
        raise invalid("limit", "is for answers in JSON: with waitMs, or 'Accept: application/json'")
    kinds, ids, roots = (_list(parameters, name) for name in _LISTS)
    wanted = Filter(
        kinds_of(kinds),
        ids_of(ids, "id") if ids is not None else ANY,
        ids_of(roots, "root", items_only=True) if roots is not None else ANY,
    )
    after = _after(parameters, head, project)
    if not (stream or takes.json):
        what = "JSON" if wait_ms is not None else f"{STREAM.decode()} or JSON"
        raise Refused(406, f"this is answered with {what}, which the Accept header does not allow")
    named = wanted.kinds if kinds is not None else ()
    return FeedRequest(
        project,
        wanted,
        frozenset(kind.toolset for kind in KINDS.values() if kind.name in named) if named else ANY,
        after,
        tuple(forms(text, "id") for text in ids or ()),
        stream,
        wait_ms or 0,
        limit or _LIMIT,
    )


def _parameters(query: bytes) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS
        )
    except ValueError:
        raise ToolFailure("VALIDATION_ERROR", "the query is malformed, or has too many parameters") from None
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        if name not in _PARAMETERS:
            raise ToolFailure(
                "VALIDATION_ERROR", f"there is no parameter '{name[:80]}'; there are: {', '.join(_PARAMETERS)}"
            )
        values.setdefault(name, []).append(value)
    return values


def _single(parameters: Mapping[str, list[str]], name: str) -> str | None:
    values = parameters.get(name)
    if values is not None and len(values) > 1:
        raise invalid(name, "is given twice")
    return None if values is None else values[0]


def _list(parameters: Mapping[str, list[str]], name: str) -> list[str] | None:
    """The values of a parameter that takes several: after commas, or in a parameter each."""
    values = parameters.get(name)
    return None if values is None else [part.strip() for value in values for part in value.split(",")]


def _number(parameters: Mapping[str, list[str]], name: str, least: int, most: int) -> int | None:
    text = _single(parameters, name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and least <= int(text) <= most):
        raise invalid(name, f"must be a whole number from {least} to {most}")
    return int(text)


def _after(parameters: Mapping[str, list[str]], head: Mapping[bytes, bytes], project: str) -> Cursor | None:
    # Of a browser that connects again: newer than what its page's address says.
    last = head.get(b"last-event-id")
    if last:
        return parse(last.decode("latin-1"), project, "Last-Event-ID")
    text = _single(parameters, "after")
    return None if text is None else parse(text, project)
