"""Encodes states as tokens, and decodes them (README.md, 'State').

A token is ``v1.gzB64.`` and the standard base64 of a gzip member with the state's JSON, followed by
16 bytes of HMAC-SHA256 over the member. Keys are those of the project, derived for one form of the state, so a state of
one project is not valid in another, and forms cannot be confused. The signature is verified before anything is
unpacked, and the unpacked size is limited.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from typing import NamedTuple

import msgspec

from coordinator.errors import ToolFailure
from coordinator.toolsets.navigator.rules.earlier import EarlierState, carried_on
from coordinator.toolsets.navigator.rules.state import State

PREFIX = "v1.gzB64."
MAX_STATE_BYTES = 262_144
"""The most bytes of JSON. An action whose state would be larger fails."""
MAX_UNPACKED_BYTES = 2 * MAX_STATE_BYTES
MAX_TOKEN = 1_048_576
"""The most characters of a token."""
MAC_BYTES = 16
PURPOSE = "navigator-walk"
"""The purpose for which the keys of states are derived."""
_LEVEL = 9
_GZIP = b"\x1f\x8b"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(State).decode
_decode_earlier = msgspec.json.Decoder(EarlierState).decode


class Sealed(NamedTuple):
    """The parts of an unverified token."""

    packed: bytes
    mac: bytes


def earlier_purpose(project: str) -> str:
    """The purpose for which earlier versions derived keys from those of the fleet, for states of the earlier form."""
    return f"navigator-state:{project}"


def packed(state: State) -> bytes:
    """Encodes a state as a gzip member, to be signed.

    Raises:
        ToolFailure: VALIDATION_ERROR, the state has grown too large.
    """
    data = _encode(state)
    if len(data) > MAX_STATE_BYTES:
        raise ToolFailure(
            "VALIDATION_ERROR",
            f"initial_variables, variables and loop_items: the state would have {len(data)} bytes; allowed are "
            f"{MAX_STATE_BYTES}, so keep them small and large things elsewhere",
        )
    return gzip.compress(data, _LEVEL, mtime=0)


def token(member: bytes, mac: bytes) -> str:
    """The token for a gzip member and its signature."""
    return PREFIX + base64.b64encode(member + mac[:MAC_BYTES]).decode()


def opened(text: str) -> Sealed:
    """Splits a token into its parts.

    Raises:
        ToolFailure: ``invalid_state``, the token is malformed.
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
    """The failure of a token whose signature is not valid."""
    return _invalid("Invalid token signature: this state was not issued here for this project, or was changed since")


def unpacked(member: bytes, earlier: bool = False) -> State:
    """Decodes the state in a verified gzip member.

    Args:
        earlier: whether it was signed for the earlier purpose, and so has the earlier form.

    Raises:
        ToolFailure: ``invalid_state``, it is damaged, too large, or not a state.
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
        return carried_on(_decode_earlier(data)) if earlier else _decode(data)
    except msgspec.ValidationError as error:
        raise _invalid(f"State validation failed: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _invalid("Failed to parse JSON payload") from None


def _invalid(message: str) -> ToolFailure:
    return ToolFailure("invalid_state", message)
