"""The trace of a session: its events, and the signed tokens that contain a segment of it (README.md, 'Trace').

Agents carry trace tokens in their context, so the payload is the stored form of the calls, compressed:
``<base64url of deflated JSON>.<signature>``. Values common to all events are in it once, or derived.
Keys of trace tokens are derived for one project, so a token of one project is not valid in another.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import msgspec
from msgspec import UNSET

from coordinator.toolsets.sessions.contract.results import TraceEvent
from coordinator.toolsets.sessions.rules import tokens
from coordinator.toolsets.sessions.rules.signer import Signer
from coordinator.toolsets.sessions.rules.tokens import Unreadable

MAX_TRACE_TOKEN = 2_000_000
"""The most characters of a trace token; ``move.lua`` stays below."""
MAX_TRACE_TOKENS = 500
"""The most trace tokens in one call."""
MAX_TEXT = 500
"""The most characters of an error or a warning in the trace."""
ADOPTED = "adopted:re-signed token"
RECOVERED = "recovered:invalid token"
ORIGINS = ("adopted:", "recovered:")
"""Prefixes of an ``err`` that is no error, but how a start_session obtained its session."""


class TracedCall(msgspec.Struct, array_like=True):
    """A call as a front-end passes it to the trace."""

    name: str
    ms: float
    act: str
    aid: str
    vw: list[str] = []


class Stored(msgspec.Struct, array_like=True):
    """A stored event: a call with its time and the script's result."""

    at: int
    problem: str
    stands: str
    entry: TracedCall


class Segment(msgspec.Struct, array_like=True):
    """The payload of a trace token: the calls of a session up to a transition."""

    sid: str
    workflow: str
    parent: str
    """The parent session, empty for none."""
    act: str
    """The activity that the transition leads to."""
    first: int
    """The index of the first call in the trace."""
    made: int
    """When the token was made, in seconds since 1970."""
    calls: list[msgspec.Raw]
    """In the stored form (``Stored``)."""

    def events(self) -> list[TraceEvent]:
        """The calls in the published form."""
        return events(self.sid, self.workflow, self.parent, self.first, self.calls)


PURPOSE = "session-trace"
"""The purpose for which the keys of trace tokens are derived."""

_encode = msgspec.json.Encoder().encode
_segment = msgspec.json.Decoder(Segment).decode
_stored = msgspec.json.Decoder(Stored).decode


def entry(name: str, seconds: float, act: str, aid: str, warnings: Sequence[str] = ()) -> bytes:
    """The trace entry of a call, in JSON. Long warnings are cut.

    Args:
        seconds: how long the call has taken so far.
        warnings: those of its answer.
    """
    cut = [warning[:MAX_TEXT] for warning in warnings]
    return _encode(TracedCall(name, round(seconds * 1000, 1), act, aid, cut))


def events(sid: str, workflow: str, parent: str, first: int, raw: Iterable[str | msgspec.Raw]) -> list[TraceEvent]:
    """The events of a session in the published form.

    Args:
        parent: the parent session, empty for none.
        first: the index of the first of them in the trace.
        raw: the stored events.
    """
    return [_event(sid, workflow, parent, number, _stored(text)) for number, text in enumerate(raw, first)]


def stale(act: str, stands: str) -> str:
    """The warning for a token behind its session."""
    return f"Token is behind its session: it is at activity '{act}' but the session has moved on to '{stands}'"


def trace_token(segment: Segment, signer: Signer) -> str:
    return tokens.seal(zlib.compress(_encode(segment), 9), signer)


_WORDS = {
    tokens.OVERSIZED: f"longer than {MAX_TRACE_TOKEN} characters",
}
_ADVICE = "Pass trace tokens as next_activity returned them, or leave trace_tokens out to get the whole trace"


def read(token: str, signer: Signer) -> Segment:
    """The segment of a trace token.

    Raises:
        Unreadable: with a sentence for the caller.
    """
    try:
        return _segment(zlib.decompress(tokens.unseal(token, signer, MAX_TRACE_TOKEN)))
    except (zlib.error, msgspec.DecodeError):
        # The signature is valid, so a release with another token format issued it.
        raise Unreadable("undecoded", f"Invalid trace token: malformed payload fields. {_ADVICE}.") from None
    except Unreadable as error:
        reason = _WORDS.get(error.reason, error.reason)
        raise Unreadable(error.kind, f"Invalid trace token: {reason}. {_ADVICE}.") from None


def _event(sid: str, workflow: str, parent: str, number: int, stored: Stored) -> TraceEvent:
    said = stored.entry
    # For a successful start_session, the problem says how the session was obtained.
    failed = bool(stored.problem) and not stored.problem.startswith(ORIGINS)
    warnings = said.vw if not stored.stands else [*said.vw, stale(said.act, stored.stands)]
    return TraceEvent(
        trace_id=sid,
        span_id=_span(sid, number),
        name=said.name,
        ts=stored.at // 1000,
        ms=said.ms,
        s="error" if failed else "ok",
        wf=workflow,
        act=said.act,
        aid=said.aid,
        err=stored.problem or UNSET,
        vw=warnings if warnings and not failed else UNSET,
        psid=parent if parent and number == 0 else UNSET,  # the first event of a session is its start
    )


def _span(sid: str, number: int) -> str:
    """A UUID derived from the session and the event's number, so that it need not be stored."""
    made = blake2b(f"{sid} {number}".encode(), digest_size=16).hexdigest()
    return f"{made[:8]}-{made[8:12]}-4{made[13:16]}-a{made[17:20]}-{made[20:]}"
