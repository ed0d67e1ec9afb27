"""Sessions of the console that began with a JWT: apart from pages, whose browser has an event loop of its own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coordinator.console.signin.sessions import Sessions
from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.store import Store
from coordinator.transport.rounds.sealing import Seals
from tests.authentication.support import KEYS, Authenticators, with_auth


@pytest.mark.anyio
async def test_a_session_by_a_jwt_has_what_the_settings_still_allow(store: Store) -> None:
    authenticators = Authenticators()
    settings = Settings(auth=Auth(mode="required", verifier=KEYS, default_permissions=("items.read", "flows.read")))
    authenticator = authenticators.make(settings)
    authenticators.verifier.knows("a.b.c", sub="bo", kind="user")
    sessions = Sessions(store, Seals(store, settings), authenticator, settings)
    made = await sessions.by_token({}, "a.b.c")
    assert made is not None
    head = {b"cookie": made[1].partition(b";")[0]}

    async def permissions(**auth: Any) -> set[str] | None:
        """Those of the visitor under other settings; None: they have to sign in."""
        authenticator.configure(with_auth(settings, mode="required", **auth))
        viewer = await sessions.viewer(head)
        return None if viewer is None or viewer.caller is None else set(viewer.caller.permissions)

    assert await permissions(verifier=KEYS, default_permissions=("*",)) == {"items.read", "flows.read"}
    assert await permissions(verifier=KEYS, default_permissions=("items",)) == {"items.read"}
    assert await permissions(verifier=msgspec.structs.replace(KEYS, issuer="https://another.example")) is None
    assert await permissions() is None
    await authenticators.close()
