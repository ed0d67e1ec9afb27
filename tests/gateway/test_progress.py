"""Timeouts of imported tools, and what progress does to them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import pytest

from coordinator.settings.sections.gateway.model import Gateway
from coordinator.toolsets.gateway.rules.catalogue import Catalogue, ImportedTool, ServerTools
from coordinator.toolsets.gateway.rules.lint import problems
from tests.gateway.lab import Json
from tests.gateway.workflows import Working
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

FASTMCP = {"kind": "mcp", "command": sys.executable, "args": [str(Path(__file__).with_name("fastmcp_server.py"))]}
LIMIT_MS = 1_500


def reports(tool: str = "report", **reliability: Any) -> Json:
    executor = {"kind": "mcp", "connection": "fast", "tool": tool}
    return {"inputSchema": {"type": "object"}, "executor": executor, "reliability": reliability}


async def test_progress_starts_the_time_anew_where_the_configuration_says_so(working: Working, tmp_path: Path) -> None:
    lab = await working(
        connections={"fast": FASTMCP},
        capabilities={
            "warm": reports(timeoutMs=60_000),
            "plain": reports(timeoutMs=LIMIT_MS),
            "extended": reports(timeoutMs=LIMIT_MS, maxTotalTimeoutMs=60_000),
            "silent": reports("report_once", timeoutMs=LIMIT_MS, maxTotalTimeoutMs=60_000),
            "bounded": reports(timeoutMs=LIMIT_MS, maxTotalTimeoutMs=LIMIT_MS + 500),
        },
    )
    (tmp_path / "warm.end").touch()
    assert (await lab.call("warm", path=str(tmp_path / "warm")))["context"]["lastResult"] == {"result": "done"}

    async def failure(name: str) -> str:
        given = {"capability": name, "arguments": {"path": str(tmp_path / name)}}
        refused = await lab.refused("workflow.start", definitionId="proxy_default", input=given)
        assert refused["error"]["details"]["errorClass"] == "timeout"
        return str(refused["error"]["message"])

    began = monotonic()
    extended = asyncio.create_task(lab.call("extended", path=str(tmp_path / "extended")))
    plain, silent, bounded = await asyncio.gather(failure("plain"), failure("silent"), failure("bounded"))
    assert plain.endswith(f"it took longer than {LIMIT_MS} ms")
    assert silent.endswith(f"it reported no progress for {LIMIT_MS} ms")
    assert bounded.endswith(f"it took longer than {LIMIT_MS + 500} ms, although it reported progress")
    await wait_until(lambda: monotonic() - began > 2 * LIMIT_MS / 1000, what="twice the timeout")
    (tmp_path / "extended.end").touch()
    assert (await extended)["context"]["lastResult"] == {"result": "done"}


def gateway(**stated: Any) -> Gateway:
    imports = [{"connection": "fast", "prefix": "fast", **stated}]
    return msgspec.convert(
        {"version": "1.0.0", "connections": {"fast": FASTMCP}, "proxy": {"import": imports}}, Gateway
    )


def test_imported_tools_have_the_reliability_of_their_import() -> None:
    stated = {"timeoutMs": 5, "maxTotalTimeoutMs": 50, "retry": {"maxAttempts": 2}}
    made = Catalogue(gateway(reliability=stated), servers={"fast": ServerTools((ImportedTool("report"),))})
    session = made.session("fast.report")
    assert session is not None
    found = session.bundle.definitions["proxy_default"].states["ready"].transitions["fast.report"].reliability
    assert msgspec.to_builtins(found) == stated
    assert (session.bundle.attempt_ms(found), session.bundle.total_ms(found)) == (5, 50)


@pytest.mark.parametrize(
    ("reliability", "says"),
    [
        ({"timeoutMs": 50, "maxTotalTimeoutMs": 50}, "must be more than timeoutMs, which is 50"),
        ({"fallback": {"executors": [{"kind": "noop"}]}}, "imported tools take none"),
    ],
)
def test_what_an_import_cannot_have(reliability: Json, says: str) -> None:
    with pytest.raises(Exception, match=says):
        gateway(reliability=reliability)


def test_what_makes_no_difference_is_warned_of() -> None:
    stated = {"inputSchema": {}, "executor": {"kind": "noop"}, "reliability": {"maxTotalTimeoutMs": 31_000_000_000}}
    made = msgspec.convert({"version": "1.0.0", "capabilities": {"a": stated}}, Gateway)
    told = [(problem.level, problem.path[-1], problem.sentence) for problem in problems(made, None)]
    assert told == [
        ("warning", "maxTotalTimeoutMs", "no attempt may take longer than 3600000 ms (limits)"),
        (
            "warning",
            "maxTotalTimeoutMs",
            "means nothing to an executor of kind noop: only tools of servers report progress",
        ),
    ]
