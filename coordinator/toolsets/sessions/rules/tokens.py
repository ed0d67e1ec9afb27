"""Session tokens (README.md, 'Session and token'): ``<payload in base64url>.<HMAC-SHA256 of that text in hex>``.

The payload is compact JSON with its fields in the order of ``Payload``. A checkpoint handle is a
session token whose ``bcp`` is set. A valid signature does not mean that the session still exists or is in the
state of the token: only the record in the store decides that.
"""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.errors import ToolFailure
from coordinator.toolsets.sessions.contract.arguments import MAX_CONDITION, MAX_NAME
from coordinator.toolsets.sessions.rules.signer import Signer

MAX_TOKEN = 16_384
"""The most characters of a session token; those issued here are far shorter."""
MAX_SEQ = 2**31
"""A session with one call per second would take sixty years to reach this."""
SID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of a session token. An empty text means unset."""

    wf: str
    """Workflow."""
    act: str
    """Current activity."""
    skill: str
    """Last loaded skill."""
    cond: str
    """Condition of the last transition."""
    v: str
    """Version of the workflow when the session began."""
    seq: int
    """Rises with each token of the session."""
    ts: int
    """When the token was made, in seconds since 1970."""
    sid: str
    """Session: a UUID."""
    aid: str
    """Agent."""
    bcp: str | UnsetType = UNSET
    """The pending checkpoint."""
    psid: str | UnsetType = UNSET
    """Parent: session, workflow, activity and version."""
    pwf: str | UnsetType = UNSET
    pact: str | UnsetType = UNSET
    pv: str | UnsetType = UNSET

    @property
    def checkpoint(self) -> str:
        """The pending checkpoint, empty for none."""
        return "" if self.bcp is UNSET else self.bcp


class Unreadable(Exception):
    """A text is not a valid token. ``reason`` is one of the reasons below, ``kind`` a word for metrics."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


MALFORMED = "malformed (missing signature segment)"
UNSIGNED = "HMAC signature verification failed"
INCOMPLETE = "payload is missing required fields"
UNDECODED = "failed to decode payload"
OVERSIZED = f"longer than {MAX_TOKEN} characters"
UNKNOWN = "its session is unknown in this project"

_ADVICE = {
    MALFORMED: "Pass a token as start_session or the last call returned it, or call start_session for a new one.",
    UNSIGNED: "It was changed in transit, or its key has aged out. Call start_session with it to have the session "
    "recovered; if it is a checkpoint_handle, the worker has to yield the checkpoint again.",
}
_ANEW = "Call start_session for a new one."

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Payload).decode


def invalid_token(reason: str) -> ToolFailure:
    """The failure of a call with an invalid token: the reason, and what to do."""
    return ToolFailure("invalid_session_token", f"Invalid session token: {reason}. {_ADVICE.get(reason, _ANEW)}")


def encode(payload: msgspec.Struct, signer: Signer) -> str:
    return seal(_encode(payload), signer)


def seal(payload: bytes, signer: Signer) -> str:
    """The signed token for a payload of any content."""
    text = urlsafe_b64encode(payload).rstrip(b"=")
    return f"{text.decode()}.{signer.sign(text)}"


def decode(token: str, signer: Signer) -> Payload:
    """The payload of a token with a valid signature.

    Raises:
        Unreadable: the token is too long, malformed, not signed by us, or not a session token.
    """
    return checked(_payload(unseal(token, signer, MAX_TOKEN)))


def decode_unsigned(token: str) -> Payload:
    """The payload of a token without a valid signature. For a known session, only its id may be used.

    Raises:
        Unreadable: it does not have the format of a session token.
    """
    return checked(_payload(unseal(token, None, MAX_TOKEN)))


def complete(payload: Payload) -> bool:
    """Whether a session can be created from the payload: no field is longer than in our own tokens."""
    parent = (payload.psid, payload.pwf, payload.pact, payload.pv)
    names = (payload.wf, payload.act, payload.skill, payload.v, payload.checkpoint, *parent)
    return (
        all(name is UNSET or len(name) <= MAX_NAME for name in names)
        and len(payload.cond) <= MAX_CONDITION
        and payload.seq < MAX_SEQ
        and (payload.act != "" or not payload.checkpoint)
        and (payload.psid is UNSET or SID.fullmatch(payload.psid) is not None)
    )


def checked(payload: Payload) -> Payload:
    """Returns the payload if its session id is well-formed.

    Raises:
        Unreadable: it is not. (Session ids become parts of keys, so their form must be checked.)
    """
    if not payload.wf or payload.seq < 0 or SID.fullmatch(payload.sid) is None:
        raise Unreadable("incomplete", INCOMPLETE)
    return payload


def unseal(token: str, signer: Signer | None, most: int) -> bytes:
    """The payload of a token of any content.

    Args:
        signer: verifies the signature; None: the signature is not checked.
        most: the most characters that the token may have.

    Raises:
        Unreadable: the token is not valid.
    """
    if len(token) > most:
        raise Unreadable("oversized", OVERSIZED)
    text, _, signature = token.partition(".")
    if not text or not signature or "." in signature:
        raise Unreadable("malformed", MALFORMED)
    try:
        raw = text.encode("ascii")
    except UnicodeEncodeError:
        raise Unreadable("malformed", UNSIGNED) from None
    if signer is not None and not signer.verify(raw, signature):
        raise Unreadable("unsigned", UNSIGNED)
    try:
        return urlsafe_b64decode(raw + b"=" * (-len(raw) % 4))
    except (binascii.Error, ValueError):
        raise Unreadable("undecoded", UNDECODED) from None


def _payload(raw: bytes) -> Payload:
    try:
        return _decode(raw)
    except msgspec.ValidationError:
        raise Unreadable("incomplete", INCOMPLETE) from None
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise Unreadable("undecoded", UNDECODED) from None
