"""The JSON-RPC envelope of a well-formed ``tools/call``, as structs that one decoding pass fills.

The structs of message and params reject unknown fields: a request with others (``task``, ``requestState``,
``inputResponses`` ...) is left to the SDK's server. So is anything that msgspec rejects and another JSON parser may
accept (NaN, a byte order mark, lone surrogates, ``1.0`` for an integer).

``params._meta`` is open: hosts add their own keys, often with a new value in each call. Those are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26")

_NOT_NEGOTIATED = "2025-03-26"
"""Clients of this revision may send batches, which no other revision has and this server does not support. A request
that names it in its header is served, because it is also the meaning of a missing header."""

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
TASKS = "io.modelcontextprotocol/tasks"
LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel"

_ABSENT = Raw(b"")

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Client(NamedTuple):
    """What a client can do besides calling tools, as far as it matters here; declared with each request."""

    form: bool = False
    """It shows forms to a person (elicitation)."""
    tasks: bool = False
    """It asks later for results that take long (the extension ``TASKS``)."""


PLAIN = Client()
"""A client that has declared nothing. In older revisions nothing that is declared can be used without sessions."""


def client_of(capabilities: Mapping[str, Any]) -> Client:
    """What valid client capabilities of revision 2026-07-28 declare."""
    elicitation = capabilities.get("elicitation")
    return Client(
        # Without a mode it means forms.
        form=isinstance(elicitation, Mapping) and ("form" in elicitation or not elicitation),
        tasks=TASKS in (capabilities.get("extensions") or ()),
    )


class ModernMeta(Struct, kw_only=True, gc=False):
    """The parts of ``params._meta`` of revision 2026-07-28 that are read."""

    version: Literal["2026-07-28"] = field(name=VERSION_KEY)
    client: Raw = field(name=CLIENT_KEY, default=_ABSENT)
    capabilities: Raw = field(name=CAPABILITIES_KEY)
    progress: str | int | UnsetType = field(name="progressToken", default=UNSET)
    level: LogLevel | UnsetType = field(name=LOG_LEVEL_KEY, default=UNSET)
    traceparent: str | UnsetType = UNSET
    tracestate: str | UnsetType = UNSET
    baggage: str | UnsetType = UNSET


class PlainMeta(ModernMeta, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A ``params._meta`` of revision 2026-07-28 without host-specific keys."""


class LegacyMeta(Struct, gc=False):
    """The parts of ``params._meta`` of the revisions with a handshake that are read."""

    modern: Raw = field(name=VERSION_KEY, default=_ABSENT)
    """The key that marks the revision without a handshake; must be absent."""
    progress: str | int | UnsetType = field(name="progressToken", default=UNSET)
    traceparent: str | UnsetType = UNSET
    tracestate: str | UnsetType = UNSET
    baggage: str | UnsetType = UNSET


class LegacyParams(Struct, forbid_unknown_fields=True, gc=False):
    """``params`` of the revisions with a handshake; the name decides how ``arguments`` is read."""

    name: str
    arguments: Raw = _ABSENT
    meta: Raw = field(name="_meta", default=_ABSENT)


class LegacyCall(Struct, forbid_unknown_fields=True, gc=False):
    """A whole ``tools/call`` of the revisions with a handshake."""

    method: Literal["tools/call"]
    params: LegacyParams
    jsonrpc: Literal["2.0"]
    id: int | str


def negotiable(message: str) -> str:
    """The message; in an ``initialize`` that offers a revision that is not negotiable, replaces it by the newest.

    Args:
        message: JSON.
    """
    if _NOT_NEGOTIATED not in message:
        return message
    initialize = json.loads(message)
    params = initialize.get("params")
    if isinstance(params, dict) and params.get("protocolVersion") == _NOT_NEGOTIATED:
        params["protocolVersion"] = LEGACY[0]
    return json.dumps(initialize)


def modern_decoder(name: str, arguments: type[Struct]) -> msgspec.json.Decoder[Any]:
    """Decodes a ``tools/call`` of revision 2026-07-28 for the one tool ``name``, arguments included.

    ``params._meta`` is not decoded: clients send the same one again and again, so it is compared as bytes.
    """
    params = msgspec.defstruct(
        "ModernParams",
        [
            ("name", Literal[name]),
            ("arguments", arguments | UnsetType, UNSET),
            ("meta", Raw, field(name="_meta")),
        ],
        kw_only=True,
        forbid_unknown_fields=True,
        gc=False,
    )
    call = msgspec.defstruct(
        "ModernCall",
        [
            ("method", Literal["tools/call"]),
            ("params", params),
            ("jsonrpc", Literal["2.0"]),
            ("id", int | str),
        ],
        forbid_unknown_fields=True,
        gc=False,
    )
    return msgspec.json.Decoder(call)
