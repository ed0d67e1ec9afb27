"""A front-end that authenticates its callers, for tests of authorization."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coordinator.identity.callers.authenticator import Authenticator
from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.transport import FrontEnd
from coordinator.transport.metrics import AUTH_REFUSED
from tests.authentication.support import Authenticators, Tokens
from tests.support.counts import all_counted
from tests.transport.rig import Response, Rig, call, make_app, modern, send

ADD = call("add", {"left": 2, "right": 3})
ECHO = call("echo", {"text": "x"})
JWT = "header.claims.signature"
RESOURCE = "https://fleet.example.org"
ISSUER = "https://login.example.org"
WELL_KNOWN = "/.well-known/oauth-protected-resource"


class Front:
    """A front with an authenticator, a token file and a fake verifier.

    Args:
        origins: the allowed origins of pages.
    """

    def __init__(self, folder: Path, rig: Rig, origins: tuple[str, ...] = (), **auth: Any) -> None:
        self.tokens = Tokens(folder / "tokens.yaml")
        self.all = self.tokens.add("agent-1", permissions=("*",))
        self.reader = self.tokens.add("reader", permissions=("rig.read",))
        self.flows = self.tokens.add("flow-1", permissions=("flows", "gateway.read"))
        self.alpha = self.tokens.add("agent-a", permissions=("*",), projects=("alpha",))
        self.old = self.tokens.add("agent-o", seconds=-1)
        self.authenticators = Authenticators()
        self.rig = rig
        stated = {"tokens": str(self.tokens.path), "mode": "required", "resource": RESOURCE, **auth}
        self.settings = Settings(toolsets=("rig",), allowed_origins=origins, auth=Auth(**stated))
        self.authenticator: Authenticator = self.authenticators.make(self.settings)
        self.app = self.make()

    def make(self, **more: Any) -> FrontEnd:
        """Another front with the same authenticator."""
        return make_app(self.rig, settings=self.settings, authenticator=self.authenticator, **more)

    async def close(self) -> None:
        await self.app.stop()
        await self.authenticators.close()


def refusals() -> dict[str, int]:
    """How often requests were refused, by reason."""
    return all_counted(AUTH_REFUSED)


def bearer(token: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {token}")]


async def ask(
    front: Front | FrontEnd,
    token: str | None,
    request: tuple[list[tuple[str, str]], bytes] | None = None,
    path: str = "/mcp",
    method: str = "POST",
) -> Response:
    headers, body = request or modern("tools/call", ADD)
    app = front.app if isinstance(front, Front) else front
    return await send(app, method, path, [*headers, *(bearer(token) if token is not None else [])], body)
