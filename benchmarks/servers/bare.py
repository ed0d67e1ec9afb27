"""A bare ASGI handler: msgspec in, the claim script, msgspec out; without the checks of MCP.

It decodes the same arguments into the same structs, runs the same script as ``claim_item`` and
returns the same JSON. It omits what the front-end adds: header and envelope checks, policy,
idempotency keys by actor, limits, metrics, errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import redis.asyncio

from benchmarks.own_calls import Template, claims
from coordinator.store import Store
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.actor import Actor
from coordinator.toolsets.items.contract.claims import ClaimItem, ClaimItemResult, ClaimResult, ClaimSummary
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.store.agents.presence import Claimant
from coordinator.toolsets.items.store.claims import ClaimReply
from coordinator.toolsets.timestamp import iso

Claim = Callable[[ClaimItem], Awaitable[ClaimReply]]

_pack = msgspec.msgpack.Encoder().encode
_encode = msgspec.json.Encoder().encode
_ANY = ("", 0, 0)
"""A claim: item, TTL in ms, fence."""
_CLAIM = Template(
    claims.claim("default", IdempotencyKey("request", "0" * 16), Claimant("agent"), [_ANY], []),
    "request", "agent", _pack([_ANY]),
)  # fmt: skip
SCRIPT = _CLAIM.script


class Params(msgspec.Struct):
    """The params of a ``tools/call`` request."""

    name: str
    arguments: ClaimItem


class Request(msgspec.Struct):
    """A ``tools/call`` request."""

    id: int | str
    params: Params


def arguments(args: ClaimItem) -> tuple[str | bytes | int, ...]:
    """The arguments of the claim script for a call with one claim by full id."""
    entry = args.claims[0]
    item = (entry.item_id or "").replace("-", "")
    claim = _pack([(item, entry.ttl_seconds * 1000, 0)])
    return _CLAIM.arguments(args.request_id.replace("-", ""), _agent(args), claim)


def _agent(args: ClaimItem) -> str:
    return args.actor.id if isinstance(args.actor, Actor) else ""


def result(args: ClaimItem, reply: ClaimReply) -> ClaimItemResult:
    """The answer of ``claim_item`` for a claim that was placed."""
    placed = reply.claims[0]
    claimed = ClaimResult(
        item_id=dashed(placed.item),
        outcome="success",
        claimed_by=_agent(args),
        claimed_at=iso(reply.now),
        claim_expires_at=iso(placed.expires),
        original_claimed_at=iso(placed.first_claimed_at),
        fence_token=placed.fence,
    )
    counts = ClaimSummary(
        claims_total=1,
        claims_succeeded=1,
        claims_failed=0,
        releases_total=0,
        releases_succeeded=0,
        releases_failed=0,
    )
    return ClaimItemResult(claim_results=[claimed], release_results=[], summary=counts)


async def over_link(url: str) -> Any:
    """On the front-end's own connection to the store."""
    store = Store(url)
    await store.open()

    async def claim(args: ClaimItem) -> ClaimReply:
        return await store.run(SCRIPT, "default", *arguments(args))

    return _handler(claim)


async def over_pool(url: str) -> Any:
    """On redis-py's connection pool."""
    client = redis.asyncio.Redis.from_url(url)
    await client.function_load(SCRIPT.function_library.text, replace=True)
    decode = msgspec.msgpack.Decoder(ClaimReply).decode

    async def claim(args: ClaimItem) -> ClaimReply:
        words = arguments(args)
        return decode(await client.fcall(SCRIPT.function, 1, b"fc:{default}:", *words))

    return _handler(claim)


def _handler(claim: Claim) -> Any:
    decode = msgspec.json.Decoder(Request).decode

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] != "POST":  # a probe
            await send({"type": "http.response.start", "status": 405, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})
            return
        message = await receive()
        body = message["body"]
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        request = decode(body)
        args = request.params.arguments
        text = _encode(result(args, await claim(args)))
        answer = (
            b'{"jsonrpc":"2.0","id":%b,"result":{"content":[{"type":"text","text":%b}],"structuredContent":%b}}'
            % (
                _encode(request.id),
                _encode(text.decode()),
                text,
            )
        )
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    return app
