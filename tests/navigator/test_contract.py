"""The navigator's contract, beyond the checks for every toolset: its examples are answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from coordinator.toolsets.tool import Tool
from tests.navigator.client import Client
from tests.support.contracts import examples, toolsets


@pytest.mark.anyio
@pytest.mark.parametrize(("tool", "example"), examples(toolsets()["navigator"]))
async def test_examples_are_answered(nav: Client, tool: Tool, example: Mapping[str, Any]) -> None:
    arguments = dict(example)
    if "state" in arguments:
        arguments["state"] = (await nav.start("change"))["state"]
    answer = await nav(tool.name, **arguments)
    assert answer
    if tool.name in ("nav_situation", "nav_checkpoint") or (tool.name == "nav_start" and "state" not in example):
        assert answer["success"]
