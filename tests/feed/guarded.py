"""A front-end that asks for tokens."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from coordinator.identity.callers.authenticator import Authenticator
from coordinator.identity.clock import FleetClock
from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.settings.sections.feed import Feed
from coordinator.store import Store
from tests.authentication.support import KEYS, Authenticators, FakeVerifier, Tokens
from tests.feed.rig import Front, serving
from tests.transport.guarded import JWT, RESOURCE


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


class Guarded(Front):
    tokens: Tokens
    authenticator: Authenticator
    verifier: FakeVerifier
    """Of JWTs."""
    clock: FleetClock
    settings: Settings

    def knows(self, **claims: Any) -> str:
        """A JWT for half a minute."""
        return self.verifier.knows(JWT, expires=self.clock.now() + 30, **claims)

    def in_a_minute(self) -> None:
        """Puts the clock forward, so that the JWT has expired."""
        self.clock.set(int(self.clock.now() + 60) * 1000)
        self.verifier.outcomes.clear()

    def configure(self, **auth: Any) -> None:
        """Changes the section ``auth``."""
        self.settings = msgspec.structs.replace(self.settings, auth=msgspec.structs.replace(self.settings.auth, **auth))
        self.authenticator.configure(self.settings)


@contextlib.asynccontextmanager
async def guarding(store: Store, path: Path) -> AsyncIterator[Guarded]:
    """A front-end with a token file at this path."""
    tokens = Tokens(path)
    tokens.add("nobody", permissions=("*",))
    auth = Auth(tokens=str(tokens.path), mode="required", resource=RESOURCE, verifier=KEYS)
    limits = Feed(caller_most=2, caller_subscriptions_most=2)
    settings = Settings(auth=auth, request_deadline_ms=60_000, feed=limits)
    authenticators = Authenticators()
    authenticator = authenticators.make(settings)
    await authenticator.start()
    async with serving(store, settings, authenticator) as front:
        front.__class__ = Guarded
        assert isinstance(front, Guarded)
        front.tokens, front.authenticator = tokens, authenticator
        front.verifier, front.clock, front.settings = authenticators.verifier, authenticators.clock, settings
        yield front
    await authenticators.close()


async def token(
    front: Guarded, id: str, *permissions: str, projects: tuple[str, ...] | None = None, roles: tuple[str, ...] = ()
) -> str:
    """A new token that the front-end knows."""
    made = front.tokens.add(id, permissions=permissions, projects=projects, roles=roles)
    await front.authenticator.read(front.tokens.path)
    return made
