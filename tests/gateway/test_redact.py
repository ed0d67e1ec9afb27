"""Redaction in the audit."""

from __future__ import annotations

import json

import pytest

from coordinator.toolsets.gateway.rules.redact import REDACTED, redacted
from tests.gateway.conftest import MakeLab
from tests.gateway.lab import Json, states

# fmt: off
NAMES = (
    "password", "passwords", "password_confirmation", "dbPasswordOld", "pwd", "jwt", "apiKey", "api_key", "accessKey",
    "clientSecret", "refresh_token", "Authorization", "Set-Cookie", "pin", "otp", "passphrase", "credentials",
)
# fmt: on
PLAIN = ("passed", "testsPassed", "keyboard", "spin", "author", "message", "monkey")


@pytest.mark.parametrize("name", NAMES)
def test_secrets_are_redacted_by_name_at_any_depth(name: str) -> None:
    value: Json = {"a": [{"b": {name: "s3cret"}}], "text": " \n" + json.dumps({"inner": [{name: ["s3cret"]}]})}
    value["twice"] = json.dumps({"more": value["text"]})
    shown = redacted(value)
    assert "s3cret" not in json.dumps(shown)
    assert shown["a"] == [{"b": {name: REDACTED}}]
    assert json.loads(shown["text"]) == {"inner": [{name: REDACTED}]}


def test_other_values_are_unchanged() -> None:
    for value in (dict.fromkeys(PLAIN, "x"), {"password": None}, [1, True, None, 1.5]):
        assert redacted(value) == value
    for text in ('{"a":  1}', "[1, 2 ]", "{broken", '["password"', "[[[[[[[[[[[[[[", "plain"):
        assert redacted({"x": text}) == {"x": text}


def test_long_lists_texts_and_objects_are_cut() -> None:
    shown = redacted({"list": [0] * 201, "text": "x" * 2001, "object": {str(n): n for n in range(201)}})
    assert (shown["list"][199:], len(shown["text"])) == ([0, "... 1 more"], 2003)
    assert (len(shown["object"]), shown["object"]["..."]) == (201, "1 more")
    assert redacted({"list": [0] * 200}) == {"list": [0] * 200}


@pytest.mark.anyio
async def test_refusals_are_recorded_without_the_refused_values(make_lab: MakeLab) -> None:
    schema = {
        "type": "object",
        "properties": {"password": {"type": "string", "minLength": 20}, "n": {"oneOf": [{}, {}]}},
    }
    wrong = {"password": "s3cret", "n": {"token": "s3cret"}}
    lab = make_lab(
        capabilities={
            "c": {"inputSchema": schema, "executor": {"kind": "noop"}},
            "locked": {"executor": {"kind": "noop"}, "guards": [{"kind": "permission", "permission": "x"}]},
        },
        workflows={
            "w": {"inputSchema": schema, **states(a={})},
            "v": states(a={"transitions": {"go": {"target": "a", "inputSchema": schema}}}),
        },
    )
    for definition, given in (
        ("w", wrong),
        ("proxy_default", {"capability": "c", **wrong}),
        ("proxy_default", {"capability": "locked", "arguments": {}}),
        ("proxy_default", {"capability": "none"}),
    ):
        await lab.refused("workflow.start", definitionId=definition, input=given)
    started = await lab.start("v")
    await lab.follow_refused(started, "go", **wrong)
    await lab.refused("workflow.start", definitionId="unknown", input={})
    told = [entry for entry in await lab.audit() if entry.type == "transition.rejected"]
    assert [
        (entry.payload["transition"], entry.payload.get("definitionId"), entry.payload["code"]) for entry in told
    ] == [
        ("", "w", "INPUT_SCHEMA_VIOLATION"),
        ("c", "proxy_default", "INPUT_SCHEMA_VIOLATION"),
        ("locked", "proxy_default", "GUARD_REJECTED"),
        ("none", "proxy_default", "INPUT_SCHEMA_VIOLATION"),
        ("go", None, "INPUT_SCHEMA_VIOLATION"),
    ]
    assert all(entry.correlation_id and entry.actor == "anonymous" for entry in told)
    assert "input.password" in told[0].payload["message"]
    assert "s3cret" not in "".join(str(entry.payload) for entry in await lab.audit())
