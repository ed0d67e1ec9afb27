"""``fleet items end-claim`` over a running fleet: what becomes of the late holder, and what is refused."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.cli.acting import user_at_host
from tests.support.fleets import Http, RunningFleet, fleet_command


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("claims")
    with RunningFleet(folder / "data", "--port", "0", "--frontends", "2", "--workers", "0") as running:
        running.wait_ready()
        yield running


def claim(fleet: RunningFleet, agent: str, claim: dict[str, Any]) -> Any:
    """A claim on a connection of its own, so that any process may get it."""
    call = {"actor": {"id": agent, "kind": "subagent"}, "requestId": str(uuid.uuid4()), "claims": [claim]}
    with Http(fleet.port) as client:
        return client.call("claim_item", **call)["claimResults"][0]


def new_item(fleet: RunningFleet, **fields: Any) -> str:
    with Http(fleet.port) as client:
        made = client.call("manage_items", operation="create", items=[{"title": "x", **fields}])
    return str(made["items"][0]["id"])


def items(fleet: RunningFleet, *words: str) -> tuple[int, str]:
    """Exit code and output of a command of items."""
    done = fleet_command("items", *words, "--data-dir", str(fleet.data_dir))
    return done.returncode, done.stdout + done.stderr


def test_a_claim_that_an_operator_ends(fleet: RunningFleet) -> None:
    item = new_item(fleet, tags="slow")
    held = claim(fleet, "slow", {"itemId": item})
    who = {"id": "slow", "kind": "subagent"}
    started = {"itemId": item, "trigger": "start", "actor": who}
    with Http(fleet.port) as client:
        assert client.call("advance_item", transitions=[started])["results"][0]["applied"]
        code, said = items(fleet, "end-claim", item[:8], "--reason", "its host is gone")
        assert (code, said) == (
            0,
            f"{item[:8]}  slow holds it no more (fence {held['fenceToken']}); its role is work\n",
        )
        late = {"itemId": item, "trigger": "complete", "actor": who, "fenceToken": held["fenceToken"]}
        with Http(fleet.port) as other:  # which is mostly of another process
            for connection in (client, other):
                (refused,) = connection.call("advance_item", transitions=[late])["results"]
                assert not refused["applied"]
                assert "fence" in refused["error"]
        found = client.call("query_items", operation="get", id=item)
        first = found["transitions"][0]
        assert (first["trigger"], first["summary"], found["role"]) == ("end_claim", "its host is gone", "work")
        assert first["actor"]["kind"] == "user"
        assert first["actor"]["id"] == user_at_host()
    taken = claim(fleet, "next", {"selector": {"tags": "slow"}})
    assert (taken["itemId"], taken["takeover"]) == (item, True)
    assert json.loads(items(fleet, "end-claim", item, "--reason", "x", "--failed", "--json")[1]) == {
        "itemId": item, "outcome": "ended", "agent": "next", "fenceToken": taken["fenceToken"],
    }  # fmt: skip


def test_claims_that_cannot_be_ended(fleet: RunningFleet) -> None:
    item = new_item(fleet, tags="kept")
    assert items(fleet, "end-claim", item, "--reason", "x") == (1, f"fleet: {item[:8]}: no agent holds it (any more)\n")
    code, said = items(fleet, "end-claim", item, "--reason", " ")
    assert (code, "reason" in said) == (2, True)
    assert items(fleet, "end-claim", item)[0] == 2
    code, said = items(fleet, "end-claim", str(uuid.uuid4()), "--reason", "x")
    assert (code, "no such item" in said) == (1, True)
    code, said = items(fleet, "end-claim", "ffffffff", "--reason", "x")
    assert code == 1
    held = claim(fleet, "kept", {"itemId": item})
    code, said = items(fleet, "end-claim", item, "--reason", "x", "--fence", "5")
    assert (code, f"kept holds it now, with {held['fenceToken']}" in said) == (1, True)
    code, said = items(fleet, "end-claim", item, "--reason", "x", "--project", "nowhere")
    assert (code, "there is no project nowhere" in said) == (2, True)
