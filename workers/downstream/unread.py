"""Finds out whose answer it is that cannot be read, so that it harms no other request."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import mcp_types as types

from workers.downstream.failures import UNREAD

_STRING = rb'"(?:[^"\\]|\\.)*"'
_MEMBER = rb'"[^"\\]*"\s*:\s*(?:' + _STRING + rb"|-?[0-9][0-9.eE+-]*|true|false|null)"
_FIRST = re.compile(rb"\s*\{\s*((?:" + _MEMBER + rb"\s*,\s*)*)(?:" + _MEMBER + rb'\s*\}|"([^"\\]*)"\s*:)?', re.DOTALL)
"""The beginning of a message: its members up to the first one that is an object or an array, whose name is last."""
_LAST = re.compile(rb"[,{]\s*(" + _MEMBER + rb"(?:\s*,\s*" + _MEMBER + rb")*)\s*\}\s*\Z", re.DOTALL)
"""The end of a message: its members after the last one that is an object or an array."""
ENDS = 1024
"""How many bytes of the beginning and of the end of a message are looked at."""

Id = str | int
"""Of a request."""


class Unread(NamedTuple):
    """What is known of a message that cannot be read."""

    id: Id | None
    """That of its request; None: it does not say."""
    is_answer: bool
    """Whether it is an answer; otherwise it is a request of the server, a notification, or no message at all."""
    is_error: bool
    """Whether it says that the request has failed."""


def looked_at(first: bytes, last: bytes) -> Unread:
    """Looks at the beginning and the end of a message. JSON does not say which members come first."""
    head, tail = _FIRST.match(first), _LAST.search(last)
    if head is None or b'"jsonrpc"' not in first + last:
        return Unread(None, False, False)
    members = _decoded(head[1].rstrip().rstrip(b",")) | (_decoded(tail[1]) if tail else {})
    names = {*members, (head[2] or b"").decode(errors="replace")}
    id_member = members.get("id")
    named = id_member if isinstance(id_member, str | int) and not isinstance(id_member, bool) else None
    is_answer = "method" not in names
    return Unread(named if is_answer else None, is_answer, is_answer and "error" in names)


def _decoded(members: bytes) -> dict[str, Any]:
    try:
        mapping: dict[str, Any] = json.loads(b"{" + members + b"}")
    except ValueError:
        return {}
    return mapping


class Requests:
    """The requests that wait for an answer, to fail those whose answers cannot be read, and no others."""

    def __init__(self) -> None:
        self._waiting: set[Id] = set()
        self._suspects: set[Id] = set()
        """Those that waited when an answer came that does not say whose it is."""
        self._lost = 0
        """How many of them have lost their answers so."""
        self._problem = ""

    def asked(self, id: Id) -> None:
        self._waiting.add(id)

    def answered(self, id: Id) -> list[types.JSONRPCError]:
        """A request got an answer. Returns errors for those that have lost theirs, if that is clear now."""
        self._waiting.discard(id)
        self._suspects.discard(id)
        if not self._lost or len(self._suspects) > self._lost:
            return []
        # As many wait as answers were lost, so each of them has lost its own.
        suspects, self._suspects, self._lost = self._suspects, set(), 0
        self._waiting -= suspects
        return [_error(suspect, self._problem, UNREAD) for suspect in suspects]

    def unread(self, message: Unread, problem: str) -> list[types.JSONRPCError]:
        """An answer cannot be read, for this reason. Returns errors for those that have lost theirs."""
        if message.id is None:
            self._suspects, self._lost, self._problem = set(self._waiting), self._lost + 1, problem
            return self.answered("")
        if message.id not in self._waiting:
            return []
        error = (
            _error(message.id, f"the server refused, with an error that cannot be read: {problem}")
            if message.is_error
            else _error(message.id, problem, UNREAD)
        )
        return [error, *self.answered(message.id)]


def _error(id: Id, message: str, data: str | None = None) -> types.JSONRPCError:
    return types.JSONRPCError(
        jsonrpc="2.0", id=id, error=types.ErrorData(code=types.INTERNAL_ERROR, message=message, data=data)
    )
