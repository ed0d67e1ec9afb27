"""A small toolset for tests of the transport, and ways to send it requests without a socket."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from coordinator.errors import ToolFailure
from coordinator.identity.callers.authenticator import Authenticator
from coordinator.identity.clock import FleetClock
from coordinator.identity.verifiers.noop import NoopVerifier
from coordinator.settings import Settings
from coordinator.toolsets.tool import Call, Resource, Tool, Toolset
from coordinator.transport import FrontEnd
from coordinator.transport.http.parts import Parts

MODERN = "2026-07-28"
_HEADERS = {
    "host": "127.0.0.1:8420",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}

LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26")


class Arguments(Struct, rename="camel", forbid_unknown_fields=True):
    pass


class Result(Struct, rename="camel", omit_defaults=True):
    pass


class Add(Arguments):
    left: Annotated[int, Meta(description="First summand.", ge=-1000, le=1000)]
    right: Annotated[int, Meta(description="Second summand.")] = 1


class Sum(Result):
    sum: Annotated[int, Meta(description="Both together.")]


class Part(Arguments):
    """One part."""

    name: Annotated[str, Meta(description="Its name.", min_length=1, max_length=40)]
    weight: Annotated[float, Meta(description="Its weight.", gt=0)] = 1.0


class Echo(Arguments):
    text: Annotated[str, Meta(description="Any text.")]
    mode: Annotated[Literal["plain", "loud", "odd"], Meta(description="How to say it.")] = "plain"
    parts: Annotated[list[Part], Meta(description="Parts.", max_length=20)] = []
    note: Annotated[str | None, Meta(description="A remark.")] = None
    flag: Annotated[bool, Meta(description="On or off.")] = False
    count: Annotated[int | UnsetType, Meta(description="A number.")] = UNSET


class Echoed(Result, kw_only=True):
    text: Annotated[str, Meta(description="The text.")]
    mode: Annotated[str, Meta(description="The mode.")]
    parts: Annotated[list[str], Meta(description="Names and weights.")]
    note: Annotated[str | None, Meta(description="The remark.")]
    flag: Annotated[bool, Meta(description="The flag.")]
    count: Annotated[int | UnsetType, Meta(description="The number.")] = UNSET
    project: Annotated[str, Meta(description="The partition.")]


class Nothing(Arguments):
    pass


class Pong(Result):
    ok: Annotated[bool, Meta(description="Always true.")]


class Fail(Arguments):
    code: Annotated[str, Meta(description="Of the error catalogue.")]
    retry_after_ms: Annotated[int | None, Meta(description="When to retry.")] = None


class Tree(Arguments):
    """A tree."""

    name: Annotated[str, Meta(description="Of the node.")]
    children: Annotated[list[Tree], Meta(description="Below it.")] = []
    data: Annotated[Any, Meta(description="Anything.")] = None


class Size(Result):
    nodes: Annotated[int, Meta(description="In the tree.")]


class Wait(Arguments):
    gate: Annotated[str, Meta(description="What to wait for.")]


@dataclass
class Rig:
    """The toolset's state: recorded calls, and gates that tests open."""

    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Tool, project and request id of each call."""
    callers: list[str | None] = field(default_factory=list)
    """The caller of each call, if known."""
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    loop: asyncio.AbstractEventLoop | None = None
    """That of those who wait at gates."""

    def toolset(self, name: str = "rig") -> Toolset:
        def tool(name: str, arguments: type[Struct], result: type[Struct], handler: Any, **more: Any) -> Tool:
            async def noting(call: Call, given: Any) -> Struct:
                self.calls.append((name, call.project, call.request_id))
                self.callers.append(call.caller.id if call.caller is not None else None)
                answer: Struct = await handler(call, given)
                return answer

            return Tool(name, f"The tool {name}.", arguments, (result,), noting, **more)

        tools = (
            tool("add", Add, Sum, self.add, read_only=True),
            tool("echo", Echo, Echoed, self.echo, idempotent=True),
            tool("nothing", Nothing, Pong, self.nothing),
            tool("fail", Fail, Pong, self.fail, destructive=True),
            tool("broken", Nothing, Pong, self.broken),
            tool("tree", Tree, Size, self.tree),
            tool("late", Wait, Pong, self.wait),
            tool("watch", Wait, Pong, self.wait, waits=lambda given: given.gate != "open"),
        )
        return Toolset(name, name.title(), f"How to use {name}.", tools)

    async def add(self, _call: Call, given: Add) -> Sum:
        return Sum(sum=given.left + given.right)

    async def echo(self, call: Call, given: Echo) -> Echoed:
        return Echoed(
            text=given.text,
            mode=given.mode,
            parts=[f"{part.name}={part.weight}" for part in given.parts],
            note=given.note,
            flag=given.flag,
            count=given.count,
            project=call.project,
        )

    async def nothing(self, _call: Call, _given: Nothing) -> Pong:
        return Pong(ok=True)

    async def fail(self, _call: Call, given: Fail) -> Pong:
        raise ToolFailure(given.code, "as told", retry_after_ms=given.retry_after_ms, contended_item_id="x" * 4)

    async def broken(self, _call: Call, _given: Nothing) -> Pong:
        raise RuntimeError("a secret of the house")

    async def tree(self, _call: Call, given: Tree) -> Size:
        def size(node: Tree) -> int:
            return 1 + sum(size(child) for child in node.children)

        return Size(nodes=size(given))

    async def wait(self, _call: Call, given: Wait) -> Pong:
        self.loop = asyncio.get_running_loop()
        self.waiting.add(given.gate)
        try:
            await self.gates.setdefault(given.gate, asyncio.Event()).wait()
        finally:
            self.waiting.discard(given.gate)
        return Pong(ok=True)


async def _dotted(_call: Call, _given: Any) -> Pong:
    return Pong(ok=True)


FACTS = Resource("rig://facts", "facts", "What there is to know.", '{"é":1}')


def dotted_toolset() -> Toolset:
    """A toolset whose tools have a dot in their names."""
    tools = tuple(Tool(name, "Dotted.", Nothing, (Pong,), _dotted) for name in ("workflow.get", "workflow.list"))
    return Toolset("gateway", "Gateway", "Dots.", tools, resources=(FACTS,))


def flows_toolset() -> Toolset:
    """A toolset whose plain names would collide with the other's unprefixed ones."""
    tools = tuple(Tool(name, "Plain.", Nothing, (Pong,), _dotted) for name in ("workflow_get", "add"))
    return Toolset("flows", "Flows", "Plain.", tools)


def open_to_all(settings: Settings) -> Authenticator:
    """An authenticator that knows no tokens, and admits everybody."""
    return Authenticator(settings, lambda wanted: NoopVerifier(), FleetClock())


class FakeStore:
    """A store for the readiness check."""

    scripts_loaded = True
    error: Exception | None = None
    pings = 0

    async def ping(self) -> float:
        self.pings += 1
        if self.error is not None:
            raise self.error
        return 0.001


def make_app(rig: Rig | None = None, **options: Any) -> FrontEnd:
    """A front over the rig's toolset, and over two more for combinations."""
    rig = rig or Rig()
    settings = options.pop("settings", None) or Settings(toolsets=("rig",), **options.pop("with_settings", {}))
    toolsets = {one.name: one for one in (rig.toolset(), dotted_toolset(), flows_toolset())}
    options.setdefault("authenticator", open_to_all(settings))
    return FrontEnd(Parts(settings, options.pop("store", None) or FakeStore(), toolsets, **options))


class Response(msgspec.Struct):
    """An answer, with the values of repeated headers joined."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def plain(self) -> bytes:
        """The decompressed body."""
        return gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.plain)

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]


async def send(
    app: FrontEnd,
    method: str = "POST",
    path: str = "/mcp",
    headers: Iterable[tuple[str | bytes, str | bytes]] = (),
    body: bytes | Iterable[bytes] = b"",
    http_version: str = "1.1",
) -> Response:
    """Sends one request to the application; a body of several chunks arrives in as many messages."""
    chunks = [body] if isinstance(body, bytes) else list(body)
    pending = [
        {"type": "http.request", "body": chunk, "more_body": number < len(chunks)}
        for number, chunk in enumerate(chunks, start=1)
    ]
    answered = asyncio.Event()
    status = 0
    seen: dict[str, str] = {}
    parts: list[bytes] = []

    async def receive() -> dict[str, Any]:
        if pending:
            return pending.pop(0)
        await answered.wait()
        return {"type": "http.disconnect"}

    async def deliver(message: Mapping[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            assert not status, "two answers"
            status = message["status"]
            for name, value in message["headers"]:
                key = name.decode()
                seen[key] = f"{seen[key]}, {value.decode()}" if key in seen else value.decode()
        else:
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                answered.set()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": http_version,
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8420),
        "headers": [(_bytes(name).lower(), _bytes(value)) for name, value in headers],
        "state": {},
    }
    await app(scope, receive, deliver)
    assert answered.is_set(), "no whole answer"
    return Response(status, seen, b"".join(parts))


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def meta(version: str = MODERN, **more: Any) -> dict[str, Any]:
    """The envelope of the revision without a handshake."""
    return {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "probe", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
        **more,
    }


def modern(
    method: str, params: Mapping[str, Any] | None = None, request_id: Any = 1, **headers: str | None
) -> tuple[list[tuple[str, str]], bytes]:
    """Headers and body of a request of revision 2026-07-28; a header given as None is left out."""
    given = {"_meta": meta(), **(params or {})}
    names = {**_HEADERS, "mcp-protocol-version": MODERN, "mcp-method": method}
    name = given.get("name") or given.get("uri")
    if isinstance(name, str):
        names["mcp-name"] = name
    body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": given}
    return _merged(names, headers), msgspec.json.encode(body)


def legacy(
    method: str,
    params: Mapping[str, Any] | None = None,
    request_id: Any = 1,
    version: str | None = "2025-11-25",
    **headers: str | None,
) -> tuple[list[tuple[str, str]], bytes]:
    """Headers and body of a request of a revision with a handshake; without a version it has no version header."""
    names = {**_HEADERS, **({} if version is None else {"mcp-protocol-version": version})}
    body = {"jsonrpc": "2.0", "id": request_id, "method": method, **({"params": params} if params is not None else {})}
    return _merged(names, headers), msgspec.json.encode(body)


def _merged(names: dict[str, str], changes: Mapping[str, str | None]) -> list[tuple[str, str]]:
    changed = {**names, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return [(name, value) for name, value in changed.items() if value is not None]


def call(tool: str, arguments: Any = None, **more: Any) -> dict[str, Any]:
    """``params`` of a tools/call."""
    return {"name": tool, **({} if arguments is None else {"arguments": arguments}), **more}
