"""Results in a custom form (``Reply``): the same on both paths, in both eras."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.toolsets.tool import Call, Reply, Tool, Toolset
from coordinator.transport import FrontEnd
from coordinator.transport.http.parts import Parts
from tests.transport.rig import Add, FakeStore, call, legacy, modern, open_to_all, send

pytestmark = pytest.mark.anyio

FORMS = {
    "text": Reply(text="a: 1\n"),
    "text and meta": Reply(text="a: 1", meta={"session_token": "x.y", "validation": {"status": "valid"}}),
    "object": Reply(structured={"b": [1, 2.5, None]}),
    "object and text": Reply(structured={"b": 1}, text="one"),
    "indented object": Reply(structured={"b": 1}, indented=True),
    "list": Reply(structured=[{"id": 1}, {"id": 2}]),
    "empty list": Reply(structured=[]),
    "failure": Reply(text="Workflow not found: x", is_error=True),
    "object and image": Reply(
        structured={"b": 1}, blocks=[{"type": "image", "data": "iVBORw0K", "mimeType": "image/png"}]
    ),
    "structured failure": Reply(structured={"error": {"code": "STALE"}, "links": []}, is_error=True, meta={"k": "v"}),
}


def as_text(failure: ToolFailure) -> Reply:
    return Reply(text=f"{failure.code}: {failure.message}", is_error=True)


def app_of(form: Reply | ToolFailure, *, fast: bool) -> FrontEnd:
    async def answer(_call: Call, _given: Any) -> Reply:
        if isinstance(form, ToolFailure):
            raise form
        return form

    tool = Tool("add", "Answers in a custom form.", Add, (), answer, refusal=as_text)
    toolset = Toolset("rig", "Rig", "", (tool,))
    settings = Settings(toolsets=("rig",))
    authenticator = open_to_all(settings)
    return FrontEnd(Parts(settings, FakeStore(), {"rig": toolset}, authenticator=authenticator, fast=fast))


async def answers(form: Reply | ToolFailure, arguments: dict[str, Any], era: Any) -> dict[str, Any]:
    """The result, which is the same on the fast path and off it."""
    found = []
    for fast in (True, False):
        app = app_of(form, fast=fast)
        response = await send(app, "POST", "/mcp", *era("tools/call", call("add", arguments)))
        if fast and arguments:
            response = await send(app, "POST", "/mcp", *era("tools/call", call("add", arguments)))
            assert app.fast_path.counts["hit"]
        await app.stop()
        found.append(response.json)
    assert found[0] == found[1]
    result: dict[str, Any] = found[0]["result"]
    return result


@pytest.mark.parametrize("era", [modern, legacy])
@pytest.mark.parametrize("name", FORMS)
async def test_both_paths_return_the_form(name: str, era: Any) -> None:
    form = FORMS[name]
    result = await answers(form, {"left": 1}, era)
    assert result["isError"] == form.is_error
    block, *beside = result["content"]
    assert beside == list(form.blocks)
    separators = None if form.indented else (",", ":")
    in_json = json.dumps(form.structured, indent=2 if form.indented else None, separators=separators)
    assert block["text"] == (form.text or in_json)
    if form.structured is None:
        assert "structuredContent" not in result
    elif isinstance(form.structured, list) and era is legacy:
        assert result["structuredContent"] == {"result": form.structured}
    else:
        assert result["structuredContent"] == form.structured
    for key, value in (form.meta or {}).items():
        assert result["_meta"][key] == value


async def test_a_list_is_the_exact_list_as_text() -> None:
    for era in (modern, legacy):
        result = await answers(FORMS["list"], {"left": 1}, era)
        assert result["content"] == [{"type": "text", "text": '[{"id":1},{"id":2}]'}]


@pytest.mark.parametrize("era", [modern, legacy])
async def test_failures_have_the_toolsets_form(era: Any) -> None:
    result = await answers(ToolFailure("conflict", "as told"), {"left": 1}, era)
    assert result["isError"]
    assert result["content"] == [{"type": "text", "text": "conflict: as told"}]
    assert "structuredContent" not in result
    refused = await answers(FORMS["text"], {}, era)
    assert refused["isError"]
    assert refused["content"][0]["text"].startswith("VALIDATION_ERROR: left")


async def test_no_output_schema_is_published_for_them() -> None:
    app = app_of(FORMS["text"], fast=True)
    listed = (await send(app, "POST", "/mcp", *modern("tools/list"))).json["result"]["tools"]
    await app.stop()
    assert [tool["name"] for tool in listed] == ["add"]
    assert "outputSchema" not in listed[0]
