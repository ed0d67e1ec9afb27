"""Waiting calls end when their authorization does."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from coordinator.identity.verifier import Outcome
from tests.support.wait import wait_until
from tests.transport.guarded import JWT, RESOURCE, Front, ask, refusals
from tests.transport.rig import call, legacy, modern

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("make", [modern, legacy])
async def test_a_waiting_call_ends_when_its_token_is_revoked(front: Front, make: Any) -> None:
    await front.authenticator.start()
    gone = asyncio.create_task(ask(front, front.all, make("tools/call", call("watch", {"gate": "gone"}))))
    stays = asyncio.create_task(
        ask(front, front.alpha, make("tools/call", call("watch", {"gate": "stays"})), "/p/alpha/mcp")
    )
    await wait_until(lambda: front.rig.waiting == {"gone", "stays"})
    front.tokens.revoke("agent-1")
    refused = await gone
    assert b"unauthenticated" in refused.body
    assert b"no such token is known here" in refused.body
    assert refusals() == {"unknown": 1}
    assert front.rig.waiting == {"stays"}
    # It has been rechecked too by now, and continues.
    front.rig.gates["stays"].set()
    assert b'"ok":true' in (await stays).body.replace(b" ", b"")


async def test_a_waiting_call_ends_when_its_permission_is_withdrawn(front: Front) -> None:
    await front.authenticator.start()
    waiting = asyncio.create_task(ask(front, front.all, modern("tools/call", call("watch", {"gate": "g"}))))
    await wait_until(lambda: front.rig.waiting == {"g"})
    front.tokens.write(re.sub(r"permissions: .*", "permissions: [rig.read]", front.tokens.path.read_text(), count=1))
    refused = await waiting
    assert b"permission_denied" in refused.body
    assert front.rig.waiting == set()


async def test_unavailable_keys_do_not_end_a_waiting_call(front: Front) -> None:
    front.authenticators.verifier.knows(JWT, aud=RESOURCE, permissions=["*"])
    waiting = asyncio.create_task(ask(front, JWT, modern("tools/call", call("watch", {"gate": "g"}))))
    await wait_until(lambda: front.rig.waiting == {"g"})
    away = Outcome(status="unavailable", verifier="jwks", reason="the key server hangs", failure="network")
    front.authenticators.verifier.outcomes[JWT] = away
    front.authenticator.configure(front.settings)  # forgets what the keys said
    await wait_until(lambda: refusals() == {"unavailable": 1})
    assert front.rig.waiting == {"g"}
    front.rig.gates["g"].set()
    assert b'"ok":true' in (await waiting).body.replace(b" ", b"")
