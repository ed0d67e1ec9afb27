"""From a state to the token that stands for it, and back (seed 002, State Token).

A token is ``v1.gzB64.`` and the standard base64 of a gzip member with the state's JSON, followed by
16 bytes of HMAC-SHA256 over the member. A key serves one project, so a state of one project is none
in another. The signature is looked at before anything is unpacked, and unpacking stops at a bound.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from coordinator.errors import ToolFailure
from coordinator.toolsets.navigator.rules.state import Entry, State

PREFIX = "v1.gzB64."
MAX_STATE_BYTES = 262_144
"""Of JSON; a larger state loses the oldest of its history, and an action is refused where that is not enough."""
MAX_UNPACKED_BYTES = 2 * MAX_STATE_BYTES
MAX_TOKEN = 1_048_576
"""Characters."""
MAC_BYTES = 16
_LEVEL = 6
_GZIP = b"\x1f\x8b"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(State).decode


class Sealed(NamedTuple):
    """A token taken apart, not yet trusted."""

    packed: bytes
    mac: bytes


def purpose(project: str) -> str:
    """What the keys of a project's states are derived for."""
    return f"navigator-state:{project}"


def packed(state: State) -> bytes:
    """The gzip member of a state, which is what gets signed; of one that is too large the history is cut.

    Raises:
        ToolFailure: VALIDATION_ERROR, the state has grown too large.
    """
    data = _encode(state)
    while len(data) > MAX_STATE_BYTES and _forget(state.history):
        data = _encode(state)
    if len(data) > MAX_STATE_BYTES:
        raise ToolFailure(
            "VALIDATION_ERROR",
            f"initial_variables, variables and loop_items: the state would have {len(data)} bytes; allowed are "
            f"{MAX_STATE_BYTES}, so keep them small and large things elsewhere",
        )
    return gzip.compress(data, _LEVEL, mtime=0)


def token(member: bytes, mac: bytes) -> str:
    """The token over a gzip member and its signature."""
    return PREFIX + base64.b64encode(member + mac[:MAC_BYTES]).decode()


def opened(text: str) -> Sealed:
    """Takes a token apart.

    Raises:
        ToolFailure: ``invalid_state``: it has another form.
    """
    if not text.startswith(PREFIX):
        raise _invalid(f"Invalid token format. Expected prefix '{PREFIX}'")
    if len(text) == len(PREFIX):
        raise _invalid("Empty token payload")
    if len(text) > MAX_TOKEN:
        raise _invalid(f"Failed to decompress payload: a token has at most {MAX_TOKEN} characters")
    try:
        raw = base64.b64decode(text[len(PREFIX) :], validate=True)
    except (binascii.Error, ValueError):
        raise _invalid("Failed to decompress payload: it is not base64") from None
    if not raw.startswith(_GZIP) or len(raw) <= MAC_BYTES:
        raise _invalid("Failed to decompress payload: it is not gzip data")
    return Sealed(raw[:-MAC_BYTES], raw[-MAC_BYTES:])


def forged() -> ToolFailure:
    """What is said of a token whose signature nobody here made."""
    return _invalid("Invalid token signature: this state was not made here for this project, or it was changed since")


def unpacked(member: bytes) -> State:
    """The state in a gzip member whose signature was verified.

    Raises:
        ToolFailure: ``invalid_state``: it is damaged, too large, or no state.
    """
    unzip = zlib.decompressobj(wbits=31)
    try:
        data = unzip.decompress(member, MAX_UNPACKED_BYTES + 1)
    except zlib.error:
        raise _invalid("Failed to decompress payload: it is not gzip data") from None
    if len(data) > MAX_UNPACKED_BYTES:
        raise _invalid(f"Failed to decompress payload: it has more than {MAX_UNPACKED_BYTES} bytes")
    if not unzip.eof or unzip.unused_data:
        raise _invalid("Failed to decompress payload: it is not one whole gzip member")
    try:
        return _decode(data)
    except msgspec.ValidationError as error:
        raise _invalid(f"State validation failed: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _invalid("Failed to parse JSON payload") from None


def _forget(history: list[Entry]) -> bool:
    """Drops the older half, at last what the newest entry says; false: there is nothing more to drop."""
    if len(history) > 1:
        del history[: len(history) // 2]
        return True
    if not history or history[0].data is UNSET:
        return False
    history[0].data = UNSET
    return True


def _invalid(message: str) -> ToolFailure:
    return ToolFailure("invalid_state", message)
