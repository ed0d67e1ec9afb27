"""The fast path: well-formed ``tools/call`` requests for tools that answer at once.

The SDK's server is the complete one; this is only a faster way to the same answer. It never rejects a request.
``plan`` reads the head and chooses a decoder before the body is parsed. ``parse`` decodes envelope and arguments in
one pass. Either may decline with a short reason, and then the request goes to the SDK's server, byte for byte. So a
rule here may be stricter than the protocol's, but never laxer: whatever is taken must get the answer that the SDK's
server would have given. A differential fuzz test compares the two (tests/transport/fuzz.py).

To be cheap per request, everything that does not depend on the single request is precomputed or cached: decoders and
parts of responses per tool and protocol era; heads; client descriptions that the SDK's own model has accepted, by
their bytes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from mcp.shared.inbound import x_mcp_header_map
from mcp_types.methods import validate_client_request
from msgspec import UNSET
from pydantic import ValidationError

from coordinator.toolsets.schema import nesting
from coordinator.toolsets.tool import AGENT_HEADER, Tool
from coordinator.transport.calls import Done
from coordinator.transport.endpoints import Access, Endpoint, Endpoints, Target
from coordinator.transport.envelope import (
    LEGACY,
    MODERN,
    PLAIN,
    Client,
    LegacyCall,
    LegacyMeta,
    ModernMeta,
    PlainMeta,
    client_of,
    modern_decoder,
)
from coordinator.transport.http.cors import Cors
from coordinator.transport.http.guards import Gate, nested_deeper, unread_coding
from coordinator.transport.http.media import accepted, is_json
from coordinator.transport.http.replies import Header, Scope, to_json
from coordinator.transport.metrics import FAST_PATH

_ERAS: dict[bytes | None, bool] = {
    MODERN.encode(): True,
    **{version.encode(): False for version in LEGACY},
    None: False,
}
"""Protocol version header -> whether it is the revision without a handshake ("modern"). A missing header is not: some
hosts omit it after their handshake."""

_CHANGING = frozenset((b"x-request-id", b"traceparent", b"tracestate", b"baggage"))
"""Headers that differ from request to request."""

_CREDENTIALS = frozenset((b"cookie", b"proxy-authorization"))
"""Headers with credentials, besides ``Authorization``, which is handled separately."""

_NOT_REMEMBERED = _CHANGING | _CREDENTIALS
"""Heads with one of these headers are not cached: it would be useless, or unsafe."""

_FEW = 256
"""How many distinct heads, header names, envelopes and client descriptions are cached."""

_SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"

_LONGEST_META = 4_096
"""Bytes of the longest accepted ``_meta``. In a longer one, a number could have more digits than parsers accept."""

_MANY = 4_096
"""How many distinct paths are cached. Each project has several."""

_LONGEST_VALUES = 8_192
"""Bytes of all header values together. The slow path measures a larger head exactly."""

_DEEPEST = 128
_AGENT = AGENT_HEADER.lower().encode()

_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One tool in one protocol era."""

    tool: Tool
    decode: Any
    """Decodes the whole request (modern era), or the arguments (legacy)."""
    optional: bool
    """Whether a call may omit all arguments."""
    deep: tuple[str, ...]
    """The arguments that may be nested deeper than allowed, so that depth has to be checked if they are there."""
    modern: bool
    access: Access
    answering: Access | None
    """Of a tool that may ask something: the permissions to act on the answer."""


class _Served(NamedTuple):
    """The tools that the fast path serves at one path."""

    project: str
    modern: dict[bytes | None, _Entry]
    legacy: dict[str, _Entry]


class Plan(msgspec.Struct, frozen=True, gc=False):
    """The decision of the fast path about a request's head. Does not depend on ``Authorization``."""

    path: str
    project: str
    tools: dict[str, _Entry]
    """The tools that the body may name (legacy era)."""
    entry: _Entry | None
    """The tool that the head names (modern era)."""
    given_id: bytes | None
    """The ``X-Request-Id`` header."""
    lasting: bool
    """Whether the head may come again, so that the plan is worth caching."""
    cors: tuple[Header, ...] = ()
    """CORS headers of the answer."""
    agent: str = ""
    """The agent that the client names."""


class ParsedCall(msgspec.Struct, frozen=True):
    """A ``tools/call`` with its arguments decoded."""

    tool: Tool
    arguments: Any
    request_id: bytes
    """The JSON-RPC id, as JSON."""
    modern: bool
    access: Access
    """The permissions that it needs."""
    meta: ModernMeta | LegacyMeta | None = None
    """Its ``_meta``; None: it has none, or a cached one without anything specific to this call."""
    defers: bool = False
    """Whether it may become a task, because the client asks later for results."""
    asking: Access | None = None
    """The permissions to act on the answer to a question; None: the tool asks none, or the client cannot be asked."""
    waits: bool = False
    """Whether it may wait for an event. Nothing has to be undone then if its client leaves."""


class FastPath:
    """The fast path of one process.

    Args:
        server_info: the server description in each result of the SDK's server.
        max_body: largest body in bytes.
        max_head: largest head in bytes.
        max_depth: deepest nesting of a body.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        gate: Gate,
        cors: Cors,
        server_info: dict[str, Any],
        *,
        max_body: int,
        max_head: int,
        max_depth: int,
    ) -> None:
        self._resolve = endpoints.resolve
        self._gate = gate
        self._cors = cors
        # A ``Content-Length`` with more digits goes to the slow path, which rejects such a body unread.
        self._length_digits = len(str(max_body))
        self._max_values = min(_LONGEST_VALUES, max_head // 2)
        self._max_names = max_head // 128
        # The SDK has its own limit, beyond which its answers differ.
        self._max_depth = min(max_depth, _DEEPEST)
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._served: dict[str, _Served] = {}
        self.derived: list[dict[bytes, Any]] = []
        """Caches of others that are derived from plans; cleared with them."""
        self._tables: dict[str, tuple[dict[bytes | None, _Entry], dict[str, _Entry]]] = {}
        self._names: set[bytes] = {b"mcp-method", b"mcp-name", b"mcp-protocol-version", b"mcp-session-id"}
        self._clients: dict[bytes, Client] = {}
        self._metas: dict[bytes, Client] = {}
        self._meta = msgspec.json.Decoder(ModernMeta).decode
        self._plain_meta = msgspec.json.Decoder(PlainMeta).decode
        self._legacy_meta = msgspec.json.Decoder(LegacyMeta).decode
        self._legacy = msgspec.json.Decoder(LegacyCall)
        self.hits = 0
        """Calls that were answered here."""
        self.misses: Counter[str] = Counter()
        """Why calls went to the slow path."""
        self._server_info = server_info
        info = to_json(server_info)
        self._modern_tails = tuple(
            b',"isError":' + flag + b',"resultType":"complete","_meta":{"' + _SERVER_INFO_KEY.encode() + b'":'
            + info + b"}}}"
            for flag in (b"false", b"true")
        )  # fmt: skip
        self._legacy_tails = (b',"isError":false}}', b',"isError":true}}')

    @property
    def counts(self) -> Counter[str]:
        """``hit`` and the reasons for misses."""
        return self.misses + Counter(hit=self.hits)

    def missed(self, reason: str) -> None:
        """Counts a call that goes to the slow path."""
        self.misses[reason] += 1
        FAST_PATH.cells["miss",].value += 1.0

    @property
    def remembered(self) -> dict[str, Collection[Any]]:
        """What it has learned from requests, by kind; none of it grows without limit or holds secrets."""
        return {
            "plans": self._plans,
            "headers": self._names,
            "clients": self._clients.keys(),
            "metas": self._metas.keys(),
        }

    def forget(self) -> None:
        """Clears the caches, because what is served at which path has changed."""
        self._plans.clear()
        self._served.clear()
        for remembered in self.derived:
            remembered.clear()

    def plan(self, scope: Scope) -> Plan | str:
        """The plan for a head; or the reason why the fast path declines it.

        ``Authorization`` is ignored here and not cached: tokens are checked for each request.
        """
        # Clients repeat their heads, so plans are cached by head.
        headers = scope["headers"]
        plan = self._plans.get((scope["path"], scope["method"], *headers))
        if plan is not None:
            return plan
        rest = [header for header in headers if header[0] != b"authorization"]
        if len(rest) < len(headers) - 1:
            return "repeated header"
        key = (scope["path"], scope["method"], *rest)
        plan = self._plans.get(key)
        if plan is not None:
            return plan
        found = self._look_at(scope, rest)
        if isinstance(found, Plan) and found.lasting:
            if len(self._plans) >= _FEW:
                self._plans.clear()
            self._plans[key] = found
        return found

    def _look_at(self, scope: Scope, headers: list[Header]) -> Plan | str:
        served = self._served.get(scope["path"]) or self._serve(scope["path"])
        if served is None or scope["method"] != "POST":
            return "endpoint"
        head = dict(headers)
        if len(head) != len(headers):
            return "repeated header"
        get = head.get
        if (get(b"host"), get(b"origin")) not in self._gate.admitted:
            return "host"
        if not is_json(get(b"content-type")):
            return "content type"
        if unread_coding(head) is not None:
            return "coding"
        if not accepted(get(b"accept")).json:
            return "accept"
        modern = _ERAS.get(get(b"mcp-protocol-version"))
        if modern is None:
            return "version"
        if not self._names.issuperset(head) and not self._learn_names(head):
            return "header"
        if len(head) > self._max_names or sum(map(len, head.values())) > self._max_values:
            return "head size"
        if len(get(b"content-length", b"")) > self._length_digits:
            return "body size"
        entry = None
        if modern:
            if get(b"mcp-method") != b"tools/call":
                return "method"
            entry = served.modern.get(get(b"mcp-name"))
            if entry is None:
                return "tool"
        return Plan(
            scope["path"],
            served.project,
            served.legacy,
            entry,
            get(b"x-request-id"),
            _NOT_REMEMBERED.isdisjoint(head),
            self._cors.headers(get(b"origin")),
            get(_AGENT, b"").strip().decode("latin-1"),
        )

    def parse(self, plan: Plan, body: bytes) -> ParsedCall | str:
        """The call in ``body``; or the reason why the fast path declines it."""
        entry = plan.entry
        meta: ModernMeta | LegacyMeta | None = None
        client = PLAIN
        try:
            if entry is not None:
                call = entry.decode(body)
                params = call.params
                raw = bytes(params.meta)
                known = self._metas.get(raw)
                if known is None:
                    meta = self._meta(raw)
                    known = self._known_client(meta, raw, body)
                    if known is None:
                        return "client"
                client = known
                arguments = params.arguments
                if arguments is UNSET:
                    if not entry.optional:
                        return "arguments"
                    arguments = entry.tool.arguments()
            else:
                call = self._legacy.decode(body)
                params = call.params
                entry = plan.tools.get(params.name)
                if entry is None:
                    return "tool"
                arguments = entry.decode(bytes(params.arguments) or b"{}")
                if raw := bytes(params.meta):
                    meta = self._legacy_meta(raw)
                    if bytes(meta.modern) or not self._readable(raw):
                        return "meta"
        except _UNDECODABLE:
            return "envelope"
        waits = entry.tool.may_wait(arguments)
        if waits and not (entry.tool.only_looks and (meta is None or meta.progress is UNSET)):
            return "waits"
        for name in entry.deep:
            if getattr(arguments, name) and nested_deeper(body, self._max_depth):
                return "depth"
        asking = entry.answering if client.form else None
        defers = client.tasks and entry.tool.deferral is not None
        return ParsedCall(
            entry.tool, arguments, to_json(call.id), entry.modern, entry.access, meta, defers, asking, waits
        )

    def response(self, parsed: ParsedCall, done: Done) -> bytes:
        """The body of the answer, as the SDK's server would give it."""
        special = done.text or done.indented or done.meta is not None or done.link is not None or done.blocks
        if special or not done.body.startswith(b"{"):
            return self._special(parsed, done)
        tails = self._modern_tails if parsed.modern else self._legacy_tails
        return b"".join(
            (
                b'{"jsonrpc":"2.0","id":',
                parsed.request_id,
                b',"result":{"content":[{"type":"text","text":',
                to_json(done.body.decode()),
                b'}],"structuredContent":',
                done.body,
                tails[done.failed],
            )
        )

    def _special(self, parsed: ParsedCall, done: Done) -> bytes:
        """The body of an answer with text of its own or ``_meta``, or with structured content that is not an object."""
        if done.interim is not None:
            result: dict[str, Any] = {**done.interim, "_meta": {_SERVER_INFO_KEY: self._server_info}}
            return b'{"jsonrpc":"2.0","id":' + parsed.request_id + b',"result":' + to_json(result) + b"}"
        result = {"content": done.content(parsed.modern)}
        if structured := done.structured(parsed.modern):
            result["structuredContent"] = msgspec.Raw(structured)
        result["isError"] = done.failed
        meta = dict(done.meta or {})
        if parsed.modern:
            result["resultType"] = "complete"
            meta[_SERVER_INFO_KEY] = self._server_info
        if meta:
            result["_meta"] = meta
        return b'{"jsonrpc":"2.0","id":' + parsed.request_id + b',"result":' + to_json(result) + b"}"

    def _serve(self, path: str) -> _Served | None:
        target = self._resolve(path)
        if not isinstance(target, Target):
            return None
        tables = self._tables.get(target.endpoint.name)
        if tables is None:
            tables = self._tables[target.endpoint.name] = self._entries(target.endpoint)
        if len(self._served) >= _MANY:
            self._served.clear()
        served = self._served[path] = _Served(target.project, *tables)
        return served

    def _entries(self, endpoint: Endpoint) -> tuple[dict[bytes | None, _Entry], dict[str, _Entry]]:
        modern: dict[bytes | None, _Entry] = {}
        legacy: dict[str, _Entry] = {}
        for name, tool in endpoint.tools.items():
            # If headers mirror arguments, the SDK has to compare the two.
            if x_mcp_header_map(endpoint.input_schemas[name]):
                continue
            deep = self._deep_arguments(tool, endpoint.input_schemas[name])
            optional = "required" not in endpoint.input_schemas[name]
            decode = modern_decoder(name, tool.arguments).decode
            access, answering = endpoint.access[name], endpoint.answering.get(name)
            modern[name.encode()] = _Entry(tool, decode, optional, deep, True, access, answering)
            decode = msgspec.json.Decoder(tool.arguments).decode
            legacy[name] = _Entry(tool, decode, optional, deep, False, access, None)
        return modern, legacy

    def _deep_arguments(self, tool: Tool, schema: dict[str, Any]) -> tuple[str, ...]:
        parts = schema.get("properties", {})
        depths = {one.name: nesting(schema, parts[one.encode_name]) for one in msgspec.structs.fields(tool.arguments)}
        # Arguments are three levels down: in the message, in its params, and in these in ``arguments``.
        return tuple(name for name, depth in depths.items() if depth is None or depth + 3 > self._max_depth)

    def _learn_names(self, head: dict[bytes, bytes]) -> bool:
        """Caches header names; False if one is an unknown header of the protocol, which only the SDK understands."""
        if any(name.startswith(b"mcp-") for name in head.keys() - self._names):
            return False
        if len(self._names) + len(head) < _FEW:
            self._names.update(head)
        return True

    def _readable(self, meta: bytes) -> bool:
        """Whether the SDK's server can also read what msgspec has skipped in a ``_meta``.

        msgspec checks the syntax of skipped values, but not their encoding, length of numbers or depth.

        Raises:
            UnicodeDecodeError: it cannot.
        """
        if len(meta) > _LONGEST_META:
            return False
        meta.decode()
        # ``_meta`` is two levels down: in the message and in its params. Each level takes two bytes.
        depth = self._max_depth - 2
        return len(meta) <= 2 * depth or not nested_deeper(meta, depth)

    def _known_client(self, meta: ModernMeta, raw: bytes, body: bytes) -> Client | None:
        """What the client can do, if ``_meta`` is readable and its description in it is known to be well-formed.

        Raises:
            msgspec.MsgspecError, UnicodeDecodeError: the fast path declines it.
        """
        if not self._readable(raw):
            return None
        capabilities = bytes(meta.capabilities)
        described = capabilities + bytes(meta.client)
        client = self._clients.get(described)
        if client is None:
            client = self._learn_client(described, capabilities, body)
            if client is None:
                return None
        if meta.progress is UNSET and meta.traceparent is UNSET and self._is_plain(raw):
            # Nothing in it is specific to this call, so it will come again.
            if len(self._metas) >= _FEW:
                self._metas.clear()
            self._metas[raw] = client
        return client

    def _is_plain(self, meta: bytes) -> bool:
        """Whether it has no host-specific keys, which may differ from call to call."""
        try:
            self._plain_meta(meta)
        except msgspec.MsgspecError:
            return False
        return True

    def _learn_client(self, described: bytes, capabilities: bytes, body: bytes) -> Client | None:
        """Validates a client's description, as part of its whole request, with the SDK's model."""
        if nested_deeper(body, self._max_depth):
            return None
        try:
            validate_client_request("tools/call", MODERN, json.loads(body)["params"])
        except (ValidationError, ValueError, RecursionError):
            return None
        if len(self._clients) >= _FEW:
            self._clients.clear()
        client = self._clients[described] = client_of(msgspec.json.decode(capabilities))
        return client
