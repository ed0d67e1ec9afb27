"""Authorization over HTTP: challenges, metadata and permissions, the same on both paths."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.identity.verifier import Outcome
from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.transport import FrontEnd
from coordinator.transport.http.replies import Scope
from coordinator.transport.mcp.server import SdkApp
from tests.transport import fuzz
from tests.transport.guarded import ADD, ECHO, ISSUER, JWT, RESOURCE, WELL_KNOWN, Front, ask, refusals
from tests.transport.live import Live, serving
from tests.transport.rig import Response, Rig, call, legacy, modern, send
from tests.transport.wire import Client, differences, raw, sendable, total

pytestmark = pytest.mark.anyio


def challenge(response: Response) -> dict[str, str]:
    """The parameters of the challenge in an answer."""
    scheme, _, rest = response.headers["www-authenticate"].partition(" ")
    assert scheme == "Bearer"
    found = dict(part.split("=", 1) for part in rest.split(", "))
    assert all(value.startswith('"') and value.endswith('"') for value in found.values())
    return {name: value[1:-1] for name, value in found.items()}


@pytest.mark.parametrize("make", [modern, legacy])
async def test_a_caller_is_served(front: Front, make: Any) -> None:
    for _ in range(3):
        response = await ask(front, front.all, make("tools/call", ADD))
        assert (response.status, total(response.body)) == (200, 5)
    assert front.app.fast_path.hits >= 2
    assert front.rig.callers == ["agent-1"] * 3
    assert refusals() == {}


async def test_the_sdk_never_sees_a_token(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[tuple[bytes, bytes]]] = []
    handle = SdkApp.handle

    async def noting(app: SdkApp, scope: Scope, *more: Any, **named: Any) -> None:
        seen.append(scope["headers"])
        await handle(app, scope, *more, **named)

    monkeypatch.setattr(SdkApp, "handle", noting)
    assert (await ask(front, front.all, modern("tools/list"))).status == 200
    (headers,) = seen
    assert (b"mcp-method", b"tools/list") in headers
    assert front.all.encode() not in b"".join(value for _, value in headers)


@pytest.mark.parametrize(
    "request_made",
    [
        modern("tools/call", ADD),
        legacy("tools/call", ADD),
        modern("tools/list"),
        modern("server/discover"),
        legacy("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x"}}),
        (modern("tools/call", ADD)[0], b"no json"),
        (modern("tools/call", ADD)[0], b""),
    ],
)
async def test_a_missing_token_is_challenged(front: Front, request_made: Any) -> None:
    response = await ask(front, None, request_made)
    assert response.status == 401
    # No error code without a token (RFC 6750, 3.1).
    assert challenge(response) == {"scope": "rig", "resource_metadata": f"{RESOURCE}{WELL_KNOWN}/mcp"}
    assert response.json["error"]["message"] == "a bearer token is required"
    assert refusals() == {"missing": 1}
    assert front.rig.calls == []


async def test_every_method_of_an_endpoint_needs_a_token(front: Front) -> None:
    for method in ("GET", "DELETE", "PUT", "OPTIONS"):
        assert (await ask(front, None, method=method)).status == 401
        assert (await ask(front, front.all, method=method)).status == 405


@pytest.mark.parametrize(
    ("token", "reason", "words"),
    [
        ("nobody", "unknown", "no such token is known here"),
        ("old", "expired", "the token has expired"),
        ("a,b", "malformed", "the Authorization header must be 'Bearer' and a token"),
        ("x.y.z", "rejected", "the token does not verify: the signature is wrong"),
    ],
)
async def test_a_bad_token_is_an_error(front: Front, token: str, reason: str, words: str) -> None:
    response = await ask(front, front.old if token == "old" else token)
    assert response.status == 401
    assert challenge(response) == {
        "error": "invalid_token",
        "error_description": words,
        "scope": "rig",
        "resource_metadata": f"{RESOURCE}{WELL_KNOWN}/mcp",
    }
    assert refusals() == {reason: 1}


async def test_a_challenge_stays_one_header_whatever_a_reason_holds(front: Front) -> None:
    """Reasons may quote foreign documents."""
    front.authenticators.verifier.outcomes[JWT] = Outcome(status="rejected", verifier="jwks", reason='"a\\b"\r\nx: ü')
    response = await ask(front, JWT)
    assert response.status == 401
    words = r'error_description="the token does not verify: \"a\\b\"??x: ?", scope="rig"'
    assert words in response.headers["www-authenticate"]


@pytest.mark.parametrize("scheme", ["Basic", "Digest"])
async def test_other_schemes_count_as_no_token(front: Front, scheme: str) -> None:
    """Even with a valid token behind a scheme name as long as Bearer."""
    assert (await ask(front, front.all)).status == 200
    headers, body = modern("tools/call", ADD)
    response = await send(front.app, "POST", "/mcp", [*headers, ("authorization", f"{scheme} {front.all}")], body)
    assert response.status == 401
    assert "error" not in challenge(response)


async def test_two_tokens_are_rejected(front: Front) -> None:
    headers, body = modern("tools/call", ADD)
    for _ in range(2):
        for tokens in ([front.all, front.all], [front.all, "x"], ["x", front.all]):
            more = [("authorization", f"Bearer {token}") for token in tokens]
            response = await send(front.app, "POST", "/mcp", [*headers, *more], body)
            assert (response.status, "is repeated" in response.json["error"]["message"]) == (400, True)
        assert (await ask(front, front.all)).status == 200


@pytest.mark.parametrize(("text", "status"), [("no token", 401), ("x" * 2_049, 200)])
async def test_the_fast_path_admits_only_tokens_that_the_slow_path_admits(front: Front, text: str, status: int) -> None:
    """Digests in a token file may belong to malformed or overlong tokens."""
    front.tokens.add_digest("odd", text.encode())
    await front.authenticator.read(front.tokens.path)
    for _ in range(2):
        assert (await ask(front, text)).status == status
    assert front.app.fast_path.hits == 0


async def test_a_token_in_the_url_is_ignored(front: Front) -> None:
    headers, body = modern("tools/call", ADD)
    response = await send(front.app, "POST", "/mcp", headers, body)
    assert response.status == 401


@pytest.mark.parametrize("make", [modern, legacy])
async def test_permissions_gate_tools(front: Front, make: Any) -> None:
    for _ in range(3):
        assert (await ask(front, front.reader, make("tools/call", ADD))).status == 200
        response = await ask(front, front.reader, make("tools/call", ECHO, 7))
        assert response.status == 403
        assert challenge(response) == {
            "error": "insufficient_scope",
            "error_description": "echo needs the permission 'rig'",
            "scope": "rig",
            "resource_metadata": f"{RESOURCE}{WELL_KNOWN}/mcp",
        }
        assert response.json["id"] == 7
    assert refusals() == {"permission": 3}
    assert {name for name, _, _ in front.rig.calls} == {"add"}


async def test_an_ambiguous_body_does_not_bypass_permissions(front: Front) -> None:
    headers, _ = legacy("tools/call", ADD)
    for names in ('"add","name":"echo"', '"echo","name":"add"'):
        body = (
            f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":{names},"arguments":{{"text":"x"}}}}}}'
        )
        await ask(front, front.reader, (headers, body.encode()))
    batch = json.dumps([json.loads(legacy("tools/call", ECHO)[1])]).encode()
    await ask(front, front.reader, (headers, batch))
    assert all(name == "add" for name, _, _ in front.rig.calls)


async def test_permissions_gate_tools_with_any_arguments(front: Front) -> None:
    headers, body = modern("tools/call", ECHO, 7)
    response = await ask(front, front.reader, (headers, body.replace(b'"x"', b'"\\ud83d"')))
    assert (response.status, response.json["id"]) == (403, 7)


async def test_permissions_gate_whole_endpoints(front: Front) -> None:
    for request in (modern("tools/list"), modern("tools/call", ADD), legacy("ping")):
        response = await ask(front, front.flows, request)
        assert response.status == 403
        assert challenge(response)["error"] == "insufficient_scope"
    # One permitted toolset of several gives access to the endpoint, but only to that toolset.
    listed = await ask(front, front.flows, modern("tools/list"), "/mcp/rig,gateway")
    assert listed.status == 403
    both = await ask(front, front.flows, modern("tools/list"), "/mcp/gateway,flows")
    assert [tool["name"] for tool in both.json["result"]["tools"]] == ["workflow_get", "add"]


async def test_the_list_shows_what_the_caller_may_use(front: Front) -> None:
    everything = await ask(front, front.all, modern("tools/list"))
    assert [tool["name"] for tool in everything.json["result"]["tools"]] == [
        tool.name for tool in front.rig.toolset().tools
    ]
    for make in (modern, legacy):
        listed = await ask(front, front.reader, make("tools/list", {}))
        assert [tool["name"] for tool in listed.json["result"]["tools"]] == ["add"]
    # So caches must not share it.
    assert everything.json["result"]["cacheScope"] == "private"


async def test_projects_are_gated(front: Front) -> None:
    for _ in range(3):
        assert (await ask(front, front.alpha, path="/p/alpha/mcp")).status == 200
        for path in ("/mcp", "/p/beta/mcp"):
            response = await ask(front, front.alpha, path=path)
            assert response.status == 403
            assert "is not for the project" in response.json["error"]["message"]
            # No scope would help, so the challenge names none.
            assert "www-authenticate" not in response.headers
    assert {project for _, project, _ in front.rig.calls} == {"alpha"}
    assert set(refusals()) == {"project"}


async def test_anonymous_callers_do_not_learn_what_is_served(front: Front) -> None:
    assert (await ask(front, None, path="/elsewhere")).status == 404
    for path in ("/mcp/nothing", "/mcp/rig,rig", "/p/NO/mcp"):
        for token in (None, "nobody"):
            response = await ask(front, token, path=path)
            assert response.status == 401
            assert challenge(response)["resource_metadata"] == RESOURCE + WELL_KNOWN
            assert "rig" not in response.body.decode()
        assert (await ask(front, front.all, path=path)).status in (400, 404)


# --- JWTs


@pytest.mark.parametrize(
    ("audience", "paths", "others"),
    [
        ("fleet", ("/mcp", "/p/alpha/mcp/rig"), ()),
        (RESOURCE, ("/mcp", "/p/alpha/mcp"), ()),
        (f"{RESOURCE}/", ("/mcp", "/mcp/rig"), ()),
        (f"{RESOURCE}/mcp", ("/mcp", "/mcp/", "/mcp/rig"), ("/p/alpha/mcp",)),
        ([f"{RESOURCE}/p/alpha", "other"], ("/p/alpha/mcp",), ("/mcp", "/p/alphabet/mcp")),
        (f"{RESOURCE}/p/alpha/mcp", ("/p/alpha/mcp/rig",), ("/p/beta/mcp", "/mcp/rig")),
        ("other", (), ("/mcp",)),
        (f"{RESOURCE}.evil.example", (), ("/mcp",)),
        ("http://fleet.example.org", (), ("/mcp",)),
        (None, (), ("/mcp",)),
    ],
)
async def test_a_token_is_valid_for_its_audience_only(
    front: Front, audience: Any, paths: tuple[str, ...], others: tuple[str, ...]
) -> None:
    front.authenticators.verifier.knows(JWT, aud=audience)
    for _ in range(3):
        for path in paths:
            assert (await ask(front, JWT, path=path)).status == 200
        for path in others:
            response = await ask(front, JWT, path=path)
            assert response.status == 401
            assert challenge(response)["error"] == "invalid_token"
            assert "another audience" in challenge(response)["error_description"]
    assert set(refusals()) == ({"audience"} if others else set())


async def test_a_verified_token_takes_the_fast_path_from_the_second_time_on(front: Front) -> None:
    front.authenticators.verifier.knows(JWT, scope="rig.read")
    assert (await ask(front, front.all)).status == 200
    for _ in range(5):
        assert (await ask(front, JWT)).status == 200
    assert front.authenticators.verifier.asked == [JWT]
    assert front.app.fast_path.counts == {"hit": 4, "host": 1, "credentials": 1}
    assert (await ask(front, JWT, modern("tools/call", ECHO))).status == 403


async def test_unavailable_keys_are_a_server_error(front: Front) -> None:
    front.authenticators.verifier.outcomes[JWT] = Outcome(status="unavailable", verifier="jwks", failure="network")
    response = await ask(front, JWT)
    assert (response.status, response.headers["retry-after"]) == (503, "5")
    assert "www-authenticate" not in response.headers
    assert refusals() == {"unavailable": 1}


# --- metadata


@pytest.mark.parametrize(
    ("path", "resource", "scopes"),
    [
        ("", "", ["rig", "rig.read", "gateway", "gateway.read", "flows", "flows.read"]),
        ("/mcp", "/mcp", ["rig", "rig.read"]),
        ("/mcp/", "/mcp", ["rig", "rig.read"]),
        ("/mcp/gateway,rig", "/mcp/gateway,rig", ["rig", "rig.read", "gateway", "gateway.read"]),
        ("/p/alpha/mcp", "/p/alpha/mcp", ["rig", "rig.read"]),
    ],
)
async def test_the_metadata_of_a_resource(front: Front, path: str, resource: str, scopes: list[str]) -> None:
    host = [("host", "fleet.example.org")]
    response = await send(front.app, "GET", WELL_KNOWN + path, host)
    assert (response.status, response.content_type) == (200, "application/json")
    found = response.json
    assert found["resource"] == RESOURCE + resource
    assert found["authorization_servers"] == [ISSUER]
    assert found["bearer_methods_supported"] == ["header"]
    assert set(scopes) <= set(found["scopes_supported"])
    assert (await send(front.app, "POST", WELL_KNOWN + path, host)).status == 405


async def test_only_served_paths_have_metadata(front: Front) -> None:
    for path in ("/nothing", "/mcp/nothing", "/p/NO/mcp", "x", "/mcp/rig/more"):
        assert (await send(front.app, "GET", WELL_KNOWN + path, [("host", "127.0.0.1")])).status == 404
    assert (await send(front.app, "GET", WELL_KNOWN, [("host", "evil.example")])).status == 421


async def test_a_proxy_may_add_a_path_prefix(make_front: Callable[..., Front]) -> None:
    front = make_front(resource=f"{RESOURCE}/coordinator/", authorization_servers=(ISSUER,))
    response = await ask(front, None)
    assert challenge(response)["resource_metadata"] == f"{RESOURCE}{WELL_KNOWN}/coordinator/mcp"
    for path in ("/coordinator/mcp", "/mcp"):
        found = (await send(front.app, "GET", WELL_KNOWN + path, [("host", "fleet.example.org")])).json
        assert found["resource"] == f"{RESOURCE}/coordinator/mcp"


async def test_without_an_issuer_there_is_no_metadata(make_front: Callable[..., Front]) -> None:
    front = make_front()
    assert challenge(await ask(front, None)) == {"scope": "rig"}
    assert (await send(front.app, "GET", WELL_KNOWN, [("host", "127.0.0.1")])).status == 404


# --- modes


async def test_in_mode_optional_a_presented_token_must_be_valid(make_front: Callable[..., Front]) -> None:
    front = make_front(mode="optional")
    for _ in range(3):
        assert (await ask(front, None)).status == 200
        assert (await ask(front, front.all)).status == 200
        assert (await ask(front, "nobody")).status == 401
        assert (await ask(front, front.reader, modern("tools/call", ECHO))).status == 403
        assert (await ask(front, None, modern("tools/call", ECHO))).status == 200
    assert front.rig.callers == [None, "agent-1", None] * 3
    listed = await ask(front, None, modern("tools/list"))
    assert len(listed.json["result"]["tools"]) > 5
    assert listed.json["result"]["cacheScope"] == "private"


async def test_in_mode_none_tokens_are_ignored(make_front: Callable[..., Front]) -> None:
    front = make_front(mode="none", authorization_servers=(ISSUER,))
    for token in (None, front.all, "nobody", front.reader):
        for _ in range(2):
            assert (await ask(front, token, modern("tools/call", ECHO))).status == 200
    assert set(front.rig.callers) == {None}
    assert (await ask(front, None, modern("tools/list"))).json["result"]["cacheScope"] == "public"
    assert (await send(front.app, "GET", WELL_KNOWN, [("host", "127.0.0.1")])).status == 404


async def test_operators_need_no_token(front: Front) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await send(front.app, "GET", path, [("host", "127.0.0.1")])).status == 200
    ready = await send(front.app, "GET", "/readyz", [("host", "127.0.0.1")])
    assert ready.json["auth"] == {"mode": "required", "file": {"entries": 5}, "verifier": {"state": "full"}}


# --- caches


async def test_no_cache_holds_a_token(front: Front) -> None:
    for token in (front.all, front.reader, front.alpha, "nobody", front.authenticators.verifier.knows(JWT)):
        for make in (modern, legacy):
            for path in ("/mcp", "/p/alpha/mcp"):
                await ask(front, token, make("tools/call", ADD), path)
    front.authenticators.verifier.outcomes.clear()
    front.authenticators.verifier.asked.clear()
    seen = repr(contents(front.app)) + repr(contents(front.authenticator))
    for token in (front.all, front.reader, front.alpha, JWT):
        assert token not in seen
    assert "agent-1" in seen


def contents(thing: Any, depth: int = 6) -> Any:
    """The content of an object, recursively."""
    if depth == 0:
        return None
    if isinstance(thing, dict):
        return {repr(key): contents(value, depth - 1) for key, value in list(thing.items())}
    if isinstance(thing, (list, tuple, set, frozenset)):
        return [contents(value, depth - 1) for value in thing]
    members = getattr(thing, "__dict__", None)
    if members is not None and type(thing).__module__.startswith("coordinator"):
        return {name: contents(value, depth - 1) for name, value in members.items()}
    return repr(thing)


async def test_a_revoked_token_is_refused_on_both_paths(front: Front) -> None:
    for _ in range(3):
        assert (await ask(front, front.all)).status == 200
    front.tokens.revoke("agent-1")
    await front.authenticator.read(front.tokens.path)
    for _ in range(2):
        assert (await ask(front, front.all)).status == 401
        assert (await ask(front, front.reader)).status == 200


async def test_a_changed_mode_applies_to_cached_heads(make_front: Callable[..., Front]) -> None:
    front = make_front(mode="optional")
    for _ in range(3):
        assert (await ask(front, None)).status == 200
    locked = Auth(tokens=str(front.tokens.path), mode="required")
    front.authenticator.configure(Settings(auth=locked))
    assert (await ask(front, None)).status == 401
    front.authenticator.configure(Settings(auth=Auth()))
    assert (await ask(front, "nobody")).status == 200


async def test_both_paths_answer_alike_with_authentication(front: Front) -> None:
    """The differential fuzz, with all kinds of tokens."""
    slow = front.make(fast=False)
    generator = fuzz.Generator(20_261)
    kinds = [front.all] * 6 + [front.reader, front.flows, front.alpha, front.old, "nobody", None]
    differences, statuses = [], set()
    for number in range(420):
        case = generator.case()
        token = kinds[number % len(kinds)]
        headers = [*case.headers, *((b"authorization", b"Bearer " + token.encode()) for token in (token,) if token)]
        fast = await send(front.app, case.method, case.path, headers, case.body)
        expected = await send(slow, case.method, case.path, headers, case.body)
        statuses.add(fast.status)
        if fuzz.meaning(fast) != fuzz.meaning(expected):
            differences.append(f"{case}\n  fast: {fuzz.meaning(fast)}\n  sdk:  {fuzz.meaning(expected)}")
        assert fast.headers.get("www-authenticate") == expected.headers.get("www-authenticate")
    await slow.stop()
    assert differences == []
    assert {200, 400, 401, 403} <= statuses
    assert front.app.fast_path.hits > 50


# --- over sockets


@pytest.fixture
def live(tmp_path: Path, rig: Rig) -> Iterator[tuple[Live, Front]]:
    fronts: list[Front] = []

    def make() -> FrontEnd:
        fronts.append(Front(tmp_path, rig))
        return fronts[0].app

    with serving(make) as live:
        yield live, fronts[0]


def shortcuts(live: Live) -> list[Any]:
    """Callers of the requests that are answered without parsing, in order."""
    protocol: Any = live.protocol
    taken: list[Any] = []
    start = protocol.start_call

    def starting(connection: Any, parsed: Any, plan: Any, grant: Any, *more: Any) -> None:
        taken.append(grant and grant.caller.id)
        start(connection, parsed, plan, grant, *more)

    protocol.start_call = starting
    return taken


@pytest.mark.parametrize("name", ["authorization", "Authorization"])
@pytest.mark.parametrize("make", [modern, legacy])
def test_a_known_head_with_a_token_is_not_parsed_again(live: tuple[Live, Front], make: Any, name: str) -> None:
    server, front = live
    taken = shortcuts(server)
    with Client(server.port) as client:
        for number, token in enumerate((front.all, front.all, front.all, front.reader, front.all)):
            client.send(raw(make("tools/call", ADD, number), (name, f"Bearer {token}")))
            status, _, body = client.answer()
            assert (status, json.loads(body)["id"], total(body)) == (200, number, 5)
    # The host was cached at the first request, the head at the second; the token is not part of it.
    assert taken == ["agent-1", "reader", "agent-1"]
    protocol: Any = server.protocol
    assert not protocol.known
    assert len(protocol.bearers) == 1
    assert all(b"uthorization" not in head and b"fct_" not in head for head in protocol.bearers)


def test_a_cached_head_grants_no_access(live: tuple[Live, Front]) -> None:
    server, front = live
    taken = shortcuts(server)
    request = modern("tools/call", ECHO)
    with Client(server.port) as client:
        for _ in range(3):
            client.send(raw(request, ("authorization", f"Bearer {front.all}")))
            assert client.answer()[0] == 200
        before = len(taken)
        for more, expected in (
            ([], 401),
            ([("authorization", "Bearer nobody")], 401),
            ([("authorization", f"Bearer {front.old}")], 401),
            ([("authorization", f"Bearer {front.reader}")], 403),
            ([("authorization", f"Bearer {front.alpha}")], 403),
            ([("authorization", f"Bearer {front.all}"), ("authorization", "Bearer nobody")], 400),
            ([("authorization", "Bearer nobody"), ("authorization", f"Bearer {front.all}")], 400),
            ([("x-authorization", f"Bearer {front.all}")], 401),
            ([("proxy-authorization", f"Bearer {front.all}")], 401),
            ([("authorization", f"Basic {front.all}")], 401),
            ([("authorization", f"Bearer {front.all}.")], 401),
            ([("authorization", f"bearer {front.all}")], 200),
            ([("authorization", f"Bearer  {front.all}")], 200),
        ):
            for _ in range(2):
                client.send(raw(request, *more))
                assert client.answer()[0] == expected, more
        assert len(taken) == before
        client.send(raw(request, ("authorization", f"Bearer {front.all}")))
        assert client.answer()[0] == 200
        assert len(taken) == before + 1


def test_a_refused_request_keeps_the_connection_usable(live: tuple[Live, Front]) -> None:
    server, front = live
    headers, body = modern("tools/call", ADD)
    big = modern("tools/call", call("echo", {"text": "x" * 300_000}))
    with Client(server.port) as client:
        for _ in range(3):
            client.send(raw(big))
            assert client.answer()[0] == 401
            client.send(raw((headers, body), ("authorization", f"Bearer {front.all}")))
            status, _, answered = client.answer()
            assert (status, total(answered)) == (200, 5)
        # Pipelined, valid and invalid.
        good = raw((headers, body), ("authorization", f"Bearer {front.all}"))
        client.send(good + raw((headers, body)) + good)
        assert [client.answer()[0] for _ in range(3)] == [200, 401, 200]


def test_the_cache_of_heads_with_tokens_is_bounded(live: tuple[Live, Front]) -> None:
    server, front = live
    protocol: Any = server.protocol
    with Client(server.port) as client:
        protocol.bearers.update((b"%d" % number, None) for number in range(8_150))
        for number in range(50):
            more = [("user-agent", f"agent-{number}"), ("authorization", f"Bearer {front.all}")]
            client.send(raw(modern("tools/call", call("nothing")), *more))
            assert client.answer()[0] == 200
    assert 0 < len(protocol.bearers) < 50


async def test_the_wire_answers_like_the_sdk_with_authentication(live: tuple[Live, Front]) -> None:
    server, front = live
    taken = shortcuts(server)
    generator, slow = fuzz.Generator(4_712), front.make(fast=False)
    kinds = [front.all] * 3 + [front.reader, "nobody", None]
    found = list[str]()
    for number in range(240):
        case = generator.case()
        if not sendable(case):
            continue
        token = kinds[number % len(kinds)]
        if token is not None:
            case.headers.append((b"authorization", b"Bearer " + token.encode()))
        found += await differences(server.port, slow, case)
    await slow.stop()
    assert found == []
    assert len(taken) > 30
