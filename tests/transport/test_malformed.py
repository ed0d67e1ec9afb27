"""Malformed messages and parameters: what is refused names the field, and quotes nothing of what was given."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coordinator.toolsets.schema import input_schema
from coordinator.transport import FrontEnd
from tests.transport.rig import Rig, call, legacy, make_app, modern, send

SECRET = "s3cret"
ONE_MESSAGE = "the body must be one JSON-RPC message"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "params", "told"),
    [
        ("subscriptions/listen", {}, "notifications: is required"),
        ("subscriptions/listen", {"notifications": SECRET}, "notifications: should be an object"),
        (
            "subscriptions/listen",
            {"notifications": {"resourceSubscriptions": ["a", 1]}},
            "notifications.resourceSubscriptions[1]: should be a valid string",
        ),
        (
            "subscriptions/listen",
            {"notifications": {"resourceSubscriptions": 1}},
            "notifications.resourceSubscriptions: should be an array",
        ),
        ("subscriptions/listen", {"notifications": {"toolsListChanged": SECRET}}, "notifications.toolsListChanged: "),
        ("tools/call", {"name": "add", "arguments": [SECRET]}, "arguments: should be an object"),
        ("tools/call", {"name": "add", "requestState": 5}, "requestState: should be a valid string"),
        ("tools/call", {}, "name: is required"),
        (
            "tools/call",
            {"name": "add", "inputResponses": {"Aa" * 99: {"action": SECRET}}},
            f"inputResponses.{'Aa' * 40}.action: should be 'accept', 'cancel' or 'decline'",
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt"}, "argument": {"name": "id", "value": ""}},
            "ref.name: is required",
        ),
    ],
)
async def test_parameters_are_refused_by_their_names(app: FrontEnd, method: str, params: Any, told: str) -> None:
    answer = await send(app, "POST", "/mcp", *modern(method, params))
    error = msgspec.json.decode(answer.plain)["error"]
    assert (answer.status, error["code"], error["message"][: len(told)]) == (400, -32602, told)
    assert SECRET not in error["message"]


@pytest.mark.anyio
@pytest.mark.parametrize("version", ["2025-11-25", "2025-03-26", None])
@pytest.mark.parametrize(
    ("message", "told"),
    [
        ([], ONE_MESSAGE),
        ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], ONE_MESSAGE),
        (SECRET, ONE_MESSAGE),
        ({}, "jsonrpc: must be '2.0'"),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, "jsonrpc: must be '2.0'"),
        ({"jsonrpc": "2.0", "id": 1}, "method: is required"),
        ({"jsonrpc": "2.0", "id": 1, "result": SECRET}, "method: is required"),
        ({"jsonrpc": "2.0", "id": 1, "method": [SECRET]}, "method: must be a string"),
        ({"jsonrpc": "2.0", "id": [1], "method": "ping"}, "the id of a request must be"),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [SECRET]}, "params: must be an object"),
        ({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": SECRET}, "params: must be an object"),
    ],
)
async def test_what_is_no_message_is_refused(app: FrontEnd, version: str | None, message: Any, told: str) -> None:
    head, _ = legacy("ping", version=version)
    answer = await send(app, "POST", "/mcp", head, msgspec.json.encode(message))
    refused = msgspec.json.decode(answer.plain)
    error = refused["error"]
    assert (answer.status, error["code"], error["message"][: len(told)]) == (400, -32600, told)
    assert SECRET not in error["message"]
    assert refused["id"] == (1 if isinstance(message, dict) and message.get("id") == 1 else None)


@pytest.mark.anyio
@pytest.mark.parametrize("revision", [legacy, modern])
@pytest.mark.parametrize("fast", [True, False])
async def test_half_of_a_surrogate_pair_is_refused_wherever_it_is(revision: Any, fast: bool) -> None:
    """Also in the place of another type, and for tools that wait, whose arguments are looked at before."""
    app = make_app(fast=fast)
    for tool in Rig().toolset().tools:
        names = [*input_schema(tool.arguments)["properties"], "HALF"]
        for given in ("HALF", "1HALF", ["HALF"], {"HALF": 1}, {"name": "HALF"}):
            for name in names:
                headers, body = revision("tools/call", call(tool.name, {name: given}))
                answer = await send(app, "POST", "/mcp", headers, body.replace(b"HALF", b"\\ud800"))
                refused = b"must be valid Unicode text" in answer.plain or b'"code":-32700' in answer.plain
                assert (refused, answer.status < 500) == (True, True), (tool.name, name, given, answer.plain)
