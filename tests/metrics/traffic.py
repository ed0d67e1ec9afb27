"""Known traffic over a fleet, and the truth about it: what the driver has sent and been answered."""

from __future__ import annotations

import http.client
import json
import uuid
from collections import Counter
from time import monotonic
from typing import Any

from tests.support.fleets import MCP_HEADERS, call_body

Json = dict[str, Any]
SLOW_MS = 50
"""How long a claim waits in vain."""
NOWHERE = "00000000-0000-4000-8000-000000000000"
CONFIG: Json = {
    "resources": {"gpu": 2, "llm": {"capacity": 3, "perMinute": 1}},
    "budgets": {"projects": {"default": {"total": {"tokens": 1000}}}, "agents": {"ann": {"day": {"tokens": 500}}}},
    "gateway": {
        "version": "1.0.0",
        "workflows": {
            "review": {
                "initialState": "open",
                "states": {
                    "open": {"transitions": {"close": {"target": "done", "executor": {"kind": "noop"}}}},
                    "done": {},
                },
            }
        },
    },
}


class Traffic:
    """One client of a fleet, which counts what it does.

    Args:
        port: of the fleet.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.calls = Counter[tuple[str, str]]()
        """Calls by tool and outcome."""
        self.actors = self.claims_by_id = 0
        """Actors that calls have named, and calls of claim_item without a selector."""
        self.requests = set[str]()
        """Request ids."""
        self.seconds = 0.0
        """How long all of them took, as their client sees it."""

    def call(self, tool: str, outcome: str = "ok", toolset: str = "items", **args: Any) -> Json:
        """The structured result of a call that has this outcome."""
        begun = monotonic()
        self._connection.request("POST", f"/mcp/{toolset}", call_body(tool, args), MCP_HEADERS)
        response = self._connection.getresponse()
        text = response.read().decode()
        self.seconds += monotonic() - begun
        assert response.status == 200, text
        if text.startswith(("event:", "data:", ":")):
            text = next(line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip())
        result = json.loads(text)["result"]
        assert bool(result.get("isError")) == (outcome != "ok"), text
        self.calls[tool, outcome] += 1
        self.actors += json.dumps(args).count('"subagent"')
        self.claims_by_id += tool == "claim_item" and "selector" not in json.dumps(args)
        self.requests |= {args["requestId"]} if "requestId" in args else set()
        structured: Json = result["structuredContent"]
        return structured

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        """A plain request."""
        self._connection.request("GET", path, headers=headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def create(self, *items: Json) -> list[str]:
        """Creates items; their ids."""
        found = self.call("manage_items", operation="create", items=[{"title": "x", **item} for item in items])
        return [one["id"] for one in found["items"]]

    def claim(self, agent: str, outcome: str, *claims: Json, request: str = "", **more: Any) -> list[Json]:
        """The results of claims, of which the last has this outcome."""
        call: Json = {"actor": {"id": agent, "kind": "subagent"}, "requestId": request or str(uuid.uuid4()), **more}
        results: list[Json] = self.call("claim_item", claims=list(claims), **call)["claimResults"]
        assert results[-1]["outcome"] == outcome, results
        return results

    def release(self, agent: str, item: str, **more: Any) -> None:
        """Releases an item."""
        call: Json = {"actor": {"id": agent, "kind": "subagent"}, "requestId": str(uuid.uuid4())}
        found = self.call("claim_item", releases=[{"itemId": item, **more}], **call)["releaseResults"]
        assert found[0]["outcome"] == "success", found

    def advance(self, agent: str, item: str, *triggers: str) -> None:
        """Applies triggers, which must succeed."""
        for trigger in triggers:
            one = {"itemId": item, "trigger": trigger, "actor": {"id": agent, "kind": "subagent"}}
            found = self.call("advance_item", transitions=[one])["results"]
            assert found[0]["applied"], found

    def add(self, other: Traffic) -> None:
        """Counts what another client has done."""
        self.calls += other.calls
        self.actors, self.claims_by_id = self.actors + other.actors, self.claims_by_id + other.claims_by_id
        self.requests, self.seconds = self.requests | other.requests, self.seconds + other.seconds

    @property
    def count(self) -> int:
        """All calls."""
        return sum(self.calls.values())

    def close(self) -> None:
        self._connection.close()
