"""Raw HTTP: the requirements of the protocol, rule by rule, on both paths of the front."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from coordinator import __version__
from coordinator.toolsets.schema import describe
from coordinator.transport import FrontEnd
from coordinator.transport.http.bodies import Bodies
from coordinator.transport.http.replies import ClientDisconnected, Message, Refused
from tests.transport.rig import LEGACY, MODERN, Response, Rig, call, legacy, make_app, meta, modern, send

pytestmark = pytest.mark.anyio

ADD = call("add", {"left": 2, "right": 3})
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT = "io.modelcontextprotocol/clientInfo"


@pytest.fixture(params=[True, False], ids=["fast", "sdk"])
async def front(request: pytest.FixtureRequest, rig: Rig) -> AsyncIterator[FrontEnd]:
    app = make_app(rig, fast=request.param)
    yield app
    await app.stop()


async def post(app: FrontEnd, request: tuple[list[tuple[str, str]], bytes], path: str = "/mcp") -> Response:
    return await send(app, "POST", path, *request)


def error(response: Response) -> tuple[int, int, Any]:
    """HTTP status, JSON-RPC code and id of a protocol error."""
    assert response.content_type == "application/json"
    body = response.json
    assert body["jsonrpc"] == "2.0"
    assert "result" not in body
    return response.status, body["error"]["code"], body["id"]


# --- answers


@pytest.mark.parametrize("request_id", [1, 0, -7, "abc", "", "ü", 2**53, 2**64])
async def test_a_call_is_answered_under_its_id(front: FrontEnd, request_id: Any) -> None:
    for request in (modern("tools/call", ADD, request_id), legacy("tools/call", ADD, request_id)):
        response = await post(front, request)
        assert response.status == 200
        assert response.json["id"] == request_id
        assert response.json["result"]["structuredContent"] == {"sum": 5}


async def test_results_carry_structure_and_the_same_json_as_text(front: FrontEnd) -> None:
    echo = call("echo", {"text": 'q"\\ \u2028 ü', "parts": [{"name": "p"}]})
    for request in (modern("tools/call", echo), *(legacy("tools/call", echo, version=one) for one in LEGACY)):
        result = (await post(front, request)).json["result"]
        assert result["isError"] is False
        (block,) = result["content"]
        assert block["type"] == "text"
        assert json.loads(block["text"]) == result["structuredContent"]
        assert result["structuredContent"]["text"] == 'q"\\ \u2028 ü'
        assert result["structuredContent"]["note"] is None


async def test_results_of_the_stateless_revision_name_their_kind_and_the_server(front: FrontEnd) -> None:
    for request in (modern("tools/call", ADD), modern("tools/list"), modern("server/discover")):
        result = (await post(front, request)).json["result"]
        assert result["resultType"] == "complete"
        server = result["_meta"]["io.modelcontextprotocol/serverInfo"]
        assert server == {"name": "fleet-coordinator", "version": __version__}


async def test_results_of_older_revisions_lack_both(front: FrontEnd) -> None:
    for method, params in (("tools/call", ADD), ("tools/list", {})):
        result = (await post(front, legacy(method, params))).json["result"]
        assert not {"resultType", "_meta", "ttlMs", "cacheScope"} & set(result)


async def test_failures_are_results_with_is_error(front: FrontEnd) -> None:
    for request in (
        modern("tools/call", call("fail", {"code": "already_claimed", "retryAfterMs": 40})),
        legacy("tools/call", call("fail", {"code": "already_claimed", "retryAfterMs": 40})),
    ):
        response = await post(front, request)
        result = response.json["result"]
        assert response.status == 200
        assert result["isError"] is True
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        assert result["structuredContent"]["error"] == {
            "kind": "transient",
            "code": "already_claimed",
            "message": "as told",
            "retryAfterMs": 40,
            "contendedItemId": "xxxx",
        }
        assert "retry-after" not in response.headers


async def test_wrong_arguments_are_a_failure_that_names_the_field(front: FrontEnd) -> None:
    for arguments, place in (({"left": "x"}, "left: "), ({}, "left: is required"), ({"left": 1, "no": 1}, "no: ")):
        for request in (modern("tools/call", call("add", arguments)), legacy("tools/call", call("add", arguments))):
            response = await post(front, request)
            failure = response.json["result"]["structuredContent"]["error"]
            assert response.status == 200
            assert (failure["kind"], failure["code"]) == ("permanent", "VALIDATION_ERROR")
            assert failure["message"].startswith(place)


@pytest.mark.parametrize(("milliseconds", "seconds"), [(None, "1"), (1, "1"), (1000, "1"), (1001, "2"), (60_000, "60")])
async def test_a_shed_call_gets_a_retry_delay(front: FrontEnd, milliseconds: int | None, seconds: str) -> None:
    shed = call("fail", {"code": "over_capacity", "retryAfterMs": milliseconds})
    for request in (modern("tools/call", shed), legacy("tools/call", shed)):
        response = await post(front, request)
        assert response.headers["retry-after"] == seconds
        assert response.json["result"]["structuredContent"]["error"]["kind"] == "shedding"


async def test_a_defect_reveals_only_the_request_id(front: FrontEnd, logged: list[Any]) -> None:
    for request in (modern("tools/call", call("broken")), legacy("tools/call", call("broken"))):
        response = await post(front, request)
        failure = response.json["result"]["structuredContent"]["error"]
        assert (response.status, failure["code"]) == (200, "INTERNAL_ERROR")
        assert response.headers["x-request-id"] in failure["message"]
        assert b"secret" not in response.body
        assert logged[-1]["request_id"] == response.headers["x-request-id"]


# --- the stateless revision: headers and envelope


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"mcp_method": None}, -32020),
        ({"mcp_method": "tools/list"}, -32020),
        ({"mcp_method": "Tools/Call"}, -32020),
        ({"mcp_name": None}, -32020),
        ({"mcp_name": "echo"}, -32020),
        ({"mcp_name": "ADD"}, -32020),
        ({"mcp_name": "=?base64?YWRk=?="}, -32020),
        ({"mcp_protocol_version": None}, -32020),
        ({"mcp_protocol_version": "2025-11-25"}, -32020),
        ({"mcp_protocol_version": "2025-06-18"}, -32020),
        ({"mcp_protocol_version": "1999-01-01"}, -32020),
    ],
)
async def test_headers_must_agree_with_the_body(front: FrontEnd, changed: dict[str, str | None], code: int) -> None:
    assert error(await post(front, modern("tools/call", ADD, 7, **changed))) == (400, code, 7)


@pytest.mark.parametrize("name", ["  add", "add\t ", "=?base64?YWRk?="])
async def test_header_values_are_decoded_by_the_protocol(front: FrontEnd, name: str) -> None:
    response = await post(front, modern("tools/call", ADD, mcp_name=name))
    assert response.json["result"]["structuredContent"] == {"sum": 5}


async def test_routing_headers_must_not_repeat(front: FrontEnd) -> None:
    for name, value in (("mcp-method", "tools/call"), ("mcp-name", "add"), ("mcp-protocol-version", MODERN)):
        headers, body = modern("tools/call", ADD, 3)
        assert error(await post(front, ([*headers, (name, value)], body))) == (400, -32020, 3)
    headers, body = legacy("tools/call", ADD, 3)
    response = await post(front, ([*headers, ("mcp-protocol-version", MODERN)], body))
    assert error(response) == (400, -32020, 3)
    assert response.json["error"]["message"] == "the mcp-protocol-version header is repeated"


async def test_an_older_version_header_with_a_newer_body_is_rejected(front: FrontEnd) -> None:
    response = await post(front, modern("tools/call", ADD, mcp_protocol_version="2025-06-18"))
    words = "the mcp-protocol-version header does not match the request envelope"
    assert response.json["error"]["message"] == words


@pytest.mark.parametrize("missing", [VERSION, CAPABILITIES])
async def test_the_envelope_is_required(front: FrontEnd, missing: str) -> None:
    incomplete = {name: value for name, value in meta().items() if name != missing}
    assert error(await post(front, modern("tools/call", {**ADD, "_meta": incomplete}))) == (400, -32602, 1)
    headers, _ = modern("tools/call", ADD)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ADD}).encode()
    assert error(await post(front, (headers, body))) == (400, -32602, 1)


async def test_the_client_need_not_name_itself(front: FrontEnd) -> None:
    anonymous = {name: value for name, value in meta().items() if name != CLIENT}
    response = await post(front, modern("tools/call", {**ADD, "_meta": anonymous}))
    assert response.json["result"]["structuredContent"] == {"sum": 5}


@pytest.mark.parametrize(
    "bad", [{CAPABILITIES: None}, {CAPABILITIES: {"sampling": 1}}, {CLIENT: {"name": "x"}}, {CLIENT: "me"}]
)
async def test_a_client_description_must_be_well_formed(front: FrontEnd, bad: dict[str, Any]) -> None:
    for _ in range(2):
        response = await post(front, modern("tools/call", {**ADD, "_meta": {**meta(), **bad}}))
        assert error(response) == (400, -32602, 1)


async def test_an_unknown_revision_gets_the_known_ones(front: FrontEnd) -> None:
    request = modern("tools/call", {**ADD, "_meta": meta("2099-01-01")}, mcp_protocol_version="2099-01-01")
    response = await post(front, request)
    assert error(response) == (400, -32022, 1)
    assert response.json["error"]["data"] == {"supported": [MODERN], "requested": "2099-01-01"}


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "nope", "prompts/list"]
)
async def test_unknown_methods_are_rejected(front: FrontEnd, method: str) -> None:
    assert error(await post(front, modern(method, {}, "x"))) == (404, -32601, "x")


async def test_an_unknown_tool_is_a_protocol_error(front: FrontEnd) -> None:
    assert error(await post(front, modern("tools/call", call("nope", {})))) == (400, -32602, 1)
    response = await post(front, legacy("tools/call", call("nope", {})))
    assert error(response) == (200, -32602, 1)
    assert response.json["error"]["message"].startswith("Unknown tool: nope; there are: add, echo, ")


async def test_notifications_are_accepted_without_a_body(front: FrontEnd) -> None:
    headers, _ = modern("notifications/cancelled")
    body = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}}).encode()
    response = await post(front, (headers, body))
    assert (response.status, response.body) == (202, b"")
    headers, _ = legacy("notifications/initialized")
    body = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    response = await post(front, (headers, body))
    assert (response.status, response.body) == (202, b"")


async def test_log_levels_and_progress_tokens_are_accepted(front: FrontEnd) -> None:
    for more in ({"progressToken": 5}, {"progressToken": "p"}, {"io.modelcontextprotocol/logLevel": "debug"}):
        response = await post(front, modern("tools/call", {**ADD, "_meta": meta(**more)}))
        assert (response.status, response.content_type) == (200, "application/json")
    bad = {**ADD, "_meta": meta(**{"io.modelcontextprotocol/logLevel": "loud"})}
    assert error(await post(front, modern("tools/call", bad))) == (400, -32602, 1)


# --- older revisions


@pytest.mark.parametrize("version", [*LEGACY, "2024-11-05"])
async def test_a_handshake_needs_no_session(front: FrontEnd, version: str) -> None:
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    response = await post(front, legacy("initialize", hello, mcp_protocol_version=None))
    assert response.status == 200
    assert "mcp-session-id" not in response.headers
    result = response.json["result"]
    # The one revision with batches, which are not supported, is not negotiated.
    assert result["protocolVersion"] == (version if version != "2025-03-26" else "2025-11-25")
    assert result["serverInfo"]["name"] == "fleet-coordinator"
    assert result["instructions"] == "How to use rig."
    assert set(result["capabilities"]) == {"tools"}


async def test_a_session_id_is_ignored(front: FrontEnd) -> None:
    for headers, body in (legacy("tools/call", ADD), modern("tools/call", ADD)):
        response = await post(front, ([*headers, ("mcp-session-id", "made-up"), ("last-event-id", "3")], body))
        assert response.json["result"]["structuredContent"] == {"sum": 5}
        assert "mcp-session-id" not in response.headers


async def test_without_a_version_header_the_oldest_rules_hold(front: FrontEnd) -> None:
    response = await post(front, legacy("tools/call", ADD, mcp_protocol_version=None))
    assert response.json["result"]["structuredContent"] == {"sum": 5}


async def test_ping_is_answered(front: FrontEnd) -> None:
    assert (await post(front, legacy("ping"))).json["result"] == {}


# --- HTTP


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"])
async def test_endpoints_take_post_only(front: FrontEnd, method: str) -> None:
    for request in (modern("tools/call", ADD), legacy("tools/call", ADD)):
        response = await send(front, method, "/mcp", *request)
        assert (response.status, response.headers["allow"]) == (405, "POST")
    response = await send(front, "GET", "/mcp", [("host", "localhost"), ("accept", "text/event-stream")])
    assert response.status == 405


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}x', -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32600),
        (b"null", -32600),
        (b'"x"', -32600),
    ],
)
async def test_a_body_must_be_one_message(front: FrontEnd, body: bytes, code: int) -> None:
    headers, _ = modern("tools/call", ADD)
    assert error(await post(front, (headers, body))) == (400, code, None)


async def test_a_refused_message_is_answered_by_its_id(front: FrontEnd) -> None:
    headers, _ = modern("tools/call", ADD)
    body = b'{"jsonrpc":"1.0","id":1,"method":"ping"}'
    assert error(await post(front, (headers, body))) == (400, -32600, 1)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"])
async def test_a_body_must_be_plain_utf_8(front: FrontEnd, encoding: str) -> None:
    for headers, body in (modern("tools/call", ADD), legacy("tools/call", ADD)):
        assert error(await post(front, (headers, body.decode().encode(encoding)))) == (400, -32700, None)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', b"null"])
async def test_older_revisions_take_no_batches_either(front: FrontEnd, body: bytes) -> None:
    headers, _ = legacy("ping")
    assert (await post(front, (headers, body))).status == 400


@pytest.mark.parametrize("identity", [b"null", b"1.5", b"true", b"[1]", b"{}", b"NaN"])
async def test_older_revisions_answer_requests_with_a_wrong_id(front: FrontEnd, identity: bytes) -> None:
    headers, _ = legacy("ping")
    body = b'{"jsonrpc":"2.0","id":' + identity + b',"method":"ping"}'
    assert error(await post(front, (headers, body))) == (400, -32600, None)


async def test_hosts_and_origins_are_checked_everywhere(front: FrontEnd) -> None:
    for method, path, (headers, body) in (
        ("POST", "/mcp", modern("tools/call", ADD)),
        ("POST", "/mcp", legacy("tools/call", ADD)),
        ("GET", "/healthz", ([("host", "localhost")], b"")),
        ("GET", "/readyz", ([("host", "localhost")], b"")),
        ("GET", "/metrics", ([("host", "localhost")], b"")),
        ("GET", "/nowhere", ([("host", "localhost")], b"")),
    ):
        others = [(name, value) for name, value in headers if name != "host"]
        for host, status in ((("host", "evil.example"), 421), (None, 421)):
            assert (await send(front, method, path, [*others, *([host] if host else [])], body)).status == status
        assert (await send(front, method, path, [*headers, ("origin", "http://evil.example")], body)).status == 403
        assert (await send(front, method, path, [*headers, ("host", "localhost")], body)).status == 400
        for name, value in (("origin", f"http://{dict(headers)['host']}"), ("content-length", str(len(body)))):
            assert (await send(front, method, path, [*headers, (name, value), (name, value)], body)).status == 400


async def test_the_own_origin_is_accepted(front: FrontEnd) -> None:
    headers, body = modern("tools/call", ADD)
    for _ in range(2):
        response = await post(front, ([*headers, ("origin", "http://127.0.0.1:8420")], body))
        assert response.json["result"]["structuredContent"] == {"sum": 5}


@pytest.mark.parametrize(
    "accept", ["application/json, text/event-stream", "*/*", "application/*, text/*", "application/json", "", None]
)
async def test_accepting_json_is_enough(front: FrontEnd, accept: str | None) -> None:
    for request in (modern("tools/call", ADD, accept=accept), legacy("tools/call", ADD, accept=accept)):
        assert (await post(front, request)).status == 200


@pytest.mark.parametrize("accept", ["text/html", "text/event-stream", "application/json;q=0, */*", "*/*;q=0.0"])
async def test_not_accepting_json_is_refused(front: FrontEnd, accept: str) -> None:
    for request in (modern("tools/call", ADD, accept=accept), legacy("tools/call", ADD, accept=accept)):
        assert (await post(front, request)).status == 406


async def test_accept_may_be_split_over_several_lines(front: FrontEnd) -> None:
    for make in (modern, legacy):
        headers, body = make("tools/call", ADD, accept=None)
        lines = [("accept", "text/event-stream"), ("accept", "Application/Json ; q=0.1")]
        assert (await post(front, ([*headers, *lines], body))).status == 200
        assert (await post(front, ([*headers, lines[0]], body))).status == 406


@pytest.mark.parametrize(
    "kind", ["Application/JSON", 'application/json; Charset="utf-8"', "application/json;", "application/json;a=b"]
)
async def test_media_types_are_compared_by_the_rfc(front: FrontEnd, kind: str) -> None:
    for request in (modern("tools/call", ADD, content_type=kind), legacy("tools/call", ADD, content_type=kind)):
        assert (await post(front, request)).status == 200


@pytest.mark.parametrize("kind", ["text/plain", "", None, "application/jsonx", "application/json, text/plain", "json"])
async def test_the_content_type_must_be_json(front: FrontEnd, kind: str | None) -> None:
    for request in (modern("tools/call", ADD, content_type=kind), legacy("tools/call", ADD, content_type=kind)):
        assert (await post(front, request)).status == 415


async def test_bodies_are_bounded(rig: Rig) -> None:
    for fast in (True, False):
        app = make_app(rig, with_settings={"max_body_bytes": 4096}, fast=fast)
        for make in (modern, legacy):
            headers, body = make("tools/call", call("echo", {"text": "x" * 5000}))
            for chunks in ([body], [body[:2000], body[2000:4200], body[4200:]]):
                response = await send(app, "POST", "/mcp", headers, chunks)
                assert (response.status, response.headers["connection"]) == (413, "close")
            headers, body = make("tools/call", call("echo", {"text": "x" * 3000}))
            response = await send(app, "POST", "/mcp", headers, [body[:1000], body[1000:], b""])
            assert response.status == 200
        # A body that is announced as far too large is not read.
        headers, _ = modern("tools/call", ADD)
        for length in ("99999", "0" * 5_000 + "99999"):
            response = await send(app, "POST", "/mcp", [*headers, ("content-length", length)], [])
            assert response.status == 413
        await app.stop()


async def test_an_endless_body_is_read_up_to_four_times_the_limit() -> None:
    read = 0

    async def receive() -> Message:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b"x" * 1000, "more_body": True}

    with pytest.raises(Refused, match="larger than 4096 bytes"):
        await Bodies(4096).read(receive)
    assert read == 18


async def test_a_body_is_read_completely_or_not_at_all() -> None:
    async def read(*messages: Message) -> bytes:
        coming = iter(messages)

        async def receive() -> Message:
            return next(coming)

        return await Bodies(6).read(receive)

    begin, gone = {"type": "http.request", "body": b"abc", "more_body": True}, {"type": "http.disconnect"}
    assert await read(begin, {"type": "http.request", "body": b"def"}) == b"abcdef"
    for messages in ((gone,), (begin, gone)):
        with pytest.raises(ClientDisconnected):
            await read(*messages)


async def test_heads_are_bounded(front: FrontEnd) -> None:
    for headers, body in (modern("tools/call", ADD), legacy("tools/call", ADD)):
        many = ([(f"x-{number}", "y" * 50) for number in range(300)], [("x" * 60 + str(n), "") for n in range(250)])
        for more in ([("x-large", "x" * 17_000)], *many):
            response = await post(front, ([*headers, *more], body))
            assert (response.status, response.headers["connection"]) == (431, "close")
        response = await post(front, ([*headers, ("x-large", "x" * 12_000)], body))
        assert response.status == 200


@pytest.mark.parametrize("levels", [62, 5000])
async def test_deep_messages_are_refused_in_the_protocols_words(front: FrontEnd, levels: int) -> None:
    deep = b'{"name":"x","data":' + b"[" * levels + b"]" * levels + b"}"
    for request in (modern("tools/call", call("tree", {})), legacy("tools/call", call("tree", {}))):
        headers, body = request
        response = await post(front, (headers, body.replace(b'"arguments":{}', b'"arguments":' + deep)))
        assert error(response) == (400, -32600, None)
        assert response.json["error"]["message"] == "the message is nested deeper than 64 levels"


async def test_brackets_in_text_are_not_nesting(front: FrontEnd) -> None:
    for request in (modern("tools/call", call("tree", {"name": "[" * 5000})), legacy("tools/call", call("nothing"))):
        assert (await post(front, request)).status == 200


async def test_answers_carry_the_request_id(front: FrontEnd, rig: Rig) -> None:
    for headers, body in (modern("tools/call", call("nothing")), legacy("tools/call", call("nothing"))):
        own = (await post(front, (headers, body))).headers["x-request-id"]
        assert rig.calls[-1] == ("nothing", "default", own)
        given = await post(front, ([*headers, ("x-request-id", "trace-7")], body))
        assert given.headers["x-request-id"] == "trace-7"
        assert rig.calls[-1][2] == "trace-7"
        odd = await post(front, ([*headers, ("x-request-id", "a\x01b")], body))
        assert odd.headers["x-request-id"] not in ("a\x01b", own)
    for path in ("/healthz", "/nowhere", "/mcp"):
        assert (await send(front, "GET", path, [("host", "localhost")])).headers["x-request-id"]


# --- endpoints and lists


async def test_the_project_is_in_the_path(front: FrontEnd, rig: Rig) -> None:
    for request in (modern("tools/call", call("nothing")), legacy("tools/call", call("nothing"))):
        for path, project in (("/mcp", "default"), ("/p/team-1/mcp", "team-1"), ("/p/b/mcp/rig", "b")):
            assert (await post(front, request, path)).status == 200
            assert rig.calls[-1][:2] == ("nothing", project)


@pytest.mark.parametrize(
    ("path", "status"), [("/mcp/nope", 404), ("/mcp/rig,flows", 400), ("/p/BAD/mcp", 400), ("/elsewhere", 404)]
)
async def test_unknown_paths_answer_in_json(front: FrontEnd, path: str, status: int) -> None:
    for request in (modern("tools/call", ADD), legacy("tools/call", ADD)):
        assert error(await post(front, request, path)) == (status, -32600, None)


async def test_lists_are_complete_constant_and_cacheable(front: FrontEnd, rig: Rig) -> None:
    expected = [describe(tool, outputs="lean") for tool in rig.toolset().tools]
    for _ in range(2):
        result = (await post(front, modern("tools/list"))).json["result"]
        assert result["tools"] == expected
        assert (result["ttlMs"], result["cacheScope"]) == (300_000, "public")
    for version in LEGACY:
        assert (await post(front, legacy("tools/list", {}, version=version))).json["result"] == {"tools": expected}
    for make in (modern, legacy):
        assert error(await post(front, make("tools/list", {"cursor": "next"})))[1] == -32602


async def test_discovery_describes_the_server(front: FrontEnd) -> None:
    result = (await post(front, modern("server/discover"))).json["result"]
    assert result["supportedVersions"] == [MODERN]
    assert result["instructions"] == "How to use rig."
    assert set(result["capabilities"]) == {"tools"}
    assert (result["ttlMs"], result["cacheScope"]) == (300_000, "public")


async def test_results_fit_the_listed_schemas(front: FrontEnd) -> None:
    listed = (await post(front, modern("tools/list"))).json["result"]["tools"]
    schemas = {tool["name"]: tool["outputSchema"] for tool in listed}
    for name, arguments in (
        ("add", {"left": 1}),
        ("add", {"left": "?"}),
        ("echo", {"text": "x", "count": 3}),
        ("fail", {"code": "store_full", "retryAfterMs": 5}),
        ("tree", {"name": "t"}),
    ):
        result = (await post(front, modern("tools/call", call(name, arguments)))).json["result"]
        jsonschema.validate(result["structuredContent"], schemas[name])
