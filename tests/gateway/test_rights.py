"""What an operation may do that goes on without its principal: what the credential still may that began it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.store import Store
from coordinator.toolsets.caller import OfEntry
from tests.authentication.support import Tokens, key_of
from tests.gateway.lab import Json, Lab, Worker, section, settings_of, states
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


def waiting_for(folder: Path) -> Json:
    """An executor that says that it runs, and ends when the test lets it."""
    script = f"touch {folder}/runs; while ! [ -e {folder}/gate ]; do sleep 0.02; done; echo 1"
    return {"kind": "cli", "command": "sh", "args": ["-c", script]}


def workflow(folder: Path) -> Json:
    """A transition, then what happens by itself: a call of the coordinator's own tool, and a choice by permission."""
    automatic = {"actor": "deterministic"}
    chosen = {**automatic, "guards": [{"kind": "permission", "permission": "items"}]}
    calls = {"kind": "builtin", "tool": "workflow_list", "map": {}}
    return states(
        ready={"transitions": {"go": {"target": "listing", "executor": waiting_for(folder)}}},
        listing={"transitions": {"list": {"target": "choosing", **automatic, "executor": calls}}},
        choosing={"transitions": {"yes": {"target": "may", **chosen}, "no": {"target": "may_not", **automatic}}},
        may={"terminal": True},
        may_not={"terminal": True},
    )


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens.yaml")


@pytest.fixture
async def lab(
    store: Store, project: str, tmp_path: Path, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Lab]:
    monkeypatch.setattr("workers.tools.rights.LOOK_SECONDS", 0.0)
    auth = Auth(tokens=str(tokens.path))
    settings: Settings = settings_of(section(workflows={"w": workflow(tmp_path)}), project, auth=auth)
    tokens.add("another")
    worker, lab = await Worker(store, settings).start(), Lab(store, project, settings)
    yield lab
    (tmp_path / "gate").touch()
    await worker.stop()
    await lab.close()


Meanwhile = Callable[[Tokens, str], Any]


async def ended(lab: Lab, tokens: Tokens, folder: Path, meanwhile: Meanwhile) -> Json:
    """The instance at the end of an operation of the weaker of two tokens with one id.

    Args:
        meanwhile: what is done to the token, while the first executor runs.
    """
    weaker = tokens.add("ana", permissions=("workflow", "gateway"))
    tokens.add("ana", permissions=("*", "workflow.admin"))
    ana = lab.as_("ana", permissions=("workflow", "gateway"), credential=OfEntry(key_of(weaker)))
    begun = await ana.start("w")
    going = asyncio.create_task(ana.follow(begun, "go"))
    await wait_until((folder / "runs").exists, what="the first executor")
    meanwhile(tokens, weaker)
    (folder / "gate").touch()
    await asyncio.gather(going, return_exceptions=True)
    return await ana.settled(begun)


async def test_a_second_token_of_the_id_adds_nothing(lab: Lab, tokens: Tokens, tmp_path: Path) -> None:
    found = await ended(lab, tokens, tmp_path, lambda tokens, weaker: None)
    assert found["state"] == "may_not"


async def test_a_revoked_token_ends_the_operation(lab: Lab, tokens: Tokens, tmp_path: Path) -> None:
    found = await ended(lab, tokens, tmp_path, lambda tokens, weaker: tokens.revoke(weaker))
    assert found["state"] == "listing"
    audit = str([entry.payload for entry in await lab.audit(found)])
    assert "permission denied: ana may do nothing here now" in audit


async def test_a_token_that_replaces_it_keeps_the_operation(lab: Lab, tokens: Tokens, tmp_path: Path) -> None:
    def replace(tokens: Tokens, weaker: str) -> None:
        tokens.replace(weaker)
        tokens.revoke(weaker)

    assert (await ended(lab, tokens, tmp_path, replace))["state"] == "may_not"


async def test_a_withdrawn_permission_is_no_longer_used(lab: Lab, tokens: Tokens, tmp_path: Path) -> None:
    def narrow(tokens: Tokens, weaker: str) -> None:
        tokens.write(tokens.path.read_text().replace("[workflow, gateway]", "[gateway]"))

    found = await ended(lab, tokens, tmp_path, narrow)
    assert found["state"] == "listing"
    assert "permission_denied" in str([entry.payload for entry in await lab.audit(found)])
