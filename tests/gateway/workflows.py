"""Workflows with commands, calls and timeouts, for a lab."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.gateway.lab import Json, Lab, states
from tests.gateway.web import Web

Working = Callable[..., Awaitable[Lab]]


def auto(target: str, **more: Any) -> Json:
    """A deterministic transition."""
    return {"target": target, "actor": "deterministic", **more}


def sh(script: str, *args: str) -> Json:
    """An executor that runs a shell script of the test's."""
    return {"kind": "cli", "command": "sh", "args": ["-c", script, "sh", *args]}


COUNT = {"output": {"n": {"add": ["$.context.n", 1]}}}

ANY = {"type": "object"}


def capability(executor: Json, **more: Any) -> Json:
    """A capability that takes anything."""
    return {"inputSchema": ANY, "executor": executor, **more}


def api(web: Web, **more: Any) -> Json:
    return {"api": {"kind": "rest", "baseUrl": web.url + "/v1/", "allowPrivate": True, **more}}


def timed(target: str | None, ms: int = 400, **more: Json) -> Json:
    """A workflow that waits for a person, with a timeout."""
    made: Json = {
        **states(
            open={"transitions": {"close": {"target": "closed"}}},
            late={"transitions": {"anyway": {"target": "closed"}}, **more.pop("late", {})},
            closed={"terminal": True},
            expired={"terminal": True},
            **more,
        ),
        "timeoutMs": ms,
    }
    return {**made, "onTimeout": {"target": target}} if target is not None else made


APPROVAL = states(
    written={
        "transitions": {
            "ask": {
                "target": "asked",
                "executor": {"kind": "human", "queue": "reviews", "distinctFrom": "requester"},
                "output": {"request": "$.output.requestId"},
            }
        }
    },
    asked={
        "transitions": {
            "approve": {"target": "approved", "actor": "human", "evidence": "approval"},
            "comment": {"target": "asked"},
            "drop": {"target": "dropped"},
        }
    },
    approved={"terminal": True},
    dropped={"terminal": True, "outcome": "failure"},
)
