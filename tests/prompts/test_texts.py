"""The instructions for agents: whatever they name exists, for every front-end and caller."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

import coordinator
from coordinator.errors import CATALOGUE
from coordinator.prompts import PROMPTS, Prompt
from coordinator.prompts.texts import IDENTIFIED
from coordinator.toolsets.gateway.rules import checks
from coordinator.toolsets.registry import described_toolsets
from coordinator.toolsets.schema import describe
from coordinator.toolsets.tool import Tool

HERE = Path(coordinator.__file__).parent
TOOLSETS = described_toolsets()
VALUES = {"item": str(uuid4()), "flow": "1764131594123", "procedure": "release"}
_BLOCK = re.compile(r"```(\S+)\n(.*?)```", re.DOTALL)
_QUOTED = re.compile(r"`([^`\n]+)`")
_MARK = re.compile(r"<!-- |\{\{(?!input\.)")
_FILLED_IN = {
    "<new UUID>": str(uuid4()),
    "<itemId>": VALUES["item"],
    "<fenceToken>": "7",
    "<version>": "3",
    "<step id>": VALUES["flow"],
    "<id of the workflow>": VALUES["flow"],
}
_OTHER_WORDS = {
    "quarantined",  # a label, which is free text
    "_meta",  # of any result
    "initialActivity",  # of definitions
    "__terminal__",
    VALUES["procedure"],
}


def together(wanted: frozenset[str]) -> list[frozenset[str]]:
    """The combinations of toolsets that a front-end can serve, and that offer something for these."""
    found = (frozenset(some) for size in range(1, 5) for some in itertools.combinations(TOOLSETS, size))
    return [some for some in found if some & wanted and not {"navigator", "sessions"} <= some]


def texts_of(prompt: Prompt) -> Iterator[tuple[frozenset[str], str]]:
    """The text as callers of all front-ends get it."""
    for served in together(prompt.toolsets):
        for identified, given in itertools.product((False, True), repeat=2):
            taken = {one.name: VALUES[one.name] for one in prompt.taken(served) if given or one.required}
            yield served, prompt.text(served | ({IDENTIFIED} if identified else set()), taken, {})


def names_in(schema: Any) -> Iterator[str]:
    """Names of members, and values that are allowed."""
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        yield from map(str, (*schema.get("enum", ()), *schema.get("required", ())))
        for inner in schema.values():
            yield from names_in(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from names_in(inner)


def waits_of(schema: Any) -> set[str]:
    """What a tool can wait for; its description says so."""
    return set(re.findall(r"\w+", schema["properties"].get("waitFor", {}).get("description", "")))


@cache
def words_of(toolset: str) -> frozenset[str]:
    """What a text may name where a toolset is served."""
    found = {*_OTHER_WORDS, *CATALOGUE}
    for tool in TOOLSETS[toolset].tools:
        described = describe(tool, outputs="full")
        found.update((tool.name, *names_in(described["inputSchema"]), *names_in(described.get("outputSchema"))))
        found.update(waits_of(described["inputSchema"]))
    if toolset == "gateway":
        found |= {checks.STALE, checks.ACTOR, checks.GUARD}
    if toolset == "navigator":
        rules = "".join(path.read_text() for path in (HERE / "toolsets/navigator/rules").glob("*.py"))
        found.update(re.findall(r'Refused\(\s*"([A-Z_]+)"', rules))
    return frozenset(found)


def tools(served: frozenset[str]) -> dict[str, Tool]:
    """By name."""
    return {tool.name: tool for name in served for tool in TOOLSETS[name].tools}


def test_each_text_is_a_prompt_with_a_title_and_a_description() -> None:
    others = {prompt.without_items for prompt in PROMPTS.values()} - {""}
    assert {path.stem for path in (HERE / "prompts").glob("*.md")} == {*PROMPTS, *others}
    for prompt in PROMPTS.values():
        assert 10 < len(prompt.title) <= 40
        assert 40 < len(prompt.description) <= 200


@pytest.mark.parametrize("name", PROMPTS)
def test_what_a_text_names_exists(name: str) -> None:
    for served, text in texts_of(PROMPTS[name]):
        assert not _MARK.search(text)
        known = frozenset().union(*map(words_of, served))
        assert set(_QUOTED.findall(_BLOCK.sub("", text))) - known == set(), served


@pytest.mark.parametrize("name", PROMPTS)
def test_the_calls_of_a_text_are_well_formed(name: str) -> None:
    for served, text in texts_of(PROMPTS[name]):
        by_name, calls = tools(served), _BLOCK.findall(text)
        assert calls
        for tool, body in calls:
            for placeholder, value in _FILLED_IN.items():
                body = body.replace(placeholder, value)
            given = json.loads(body)
            msgspec.convert(given, by_name[tool].arguments)
            if "waitFor" in given:
                assert given["waitFor"] in waits_of(describe(by_name[tool])["inputSchema"])


@pytest.mark.parametrize("name", PROMPTS)
def test_only_callers_without_a_credential_name_an_actor(name: str) -> None:
    prompt = PROMPTS[name]
    for served in together(prompt.toolsets):
        text = prompt.text({*served, IDENTIFIED}, {}, {})
        assert '"actor"' not in text


def test_names_are_those_that_the_front_end_publishes() -> None:
    text = PROMPTS["review"].text({"gateway"}, {}, {"workflow.get": "gw_workflow_get", "workflow.submit": "gw_submit"})
    assert "`gw_workflow_get`" in text
    assert "```gw_submit\n" in text
    assert "workflow." not in text
