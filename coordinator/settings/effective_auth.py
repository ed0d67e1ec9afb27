"""What several settings together say about the HTTP endpoint: who is let in, under which URL it is known."""

from __future__ import annotations

import ipaddress
from typing import Literal

from coordinator.settings.identity import VerifierSettings
from coordinator.settings.model import Settings

Mode = Literal["none", "optional", "required"]


def auth_verifier(settings: Settings) -> VerifierSettings | None:
    """What verifies bearer tokens; None: nothing does."""
    stated = settings.auth.verifier or settings.actor_authentication.verifier
    return None if stated.type == "noop" else stated


def auth_mode(settings: Settings) -> Mode:
    """The mode in force."""
    auth = settings.auth
    if auth.mode != "auto":
        return auth.mode
    return "optional" if auth.tokens or auth_verifier(settings) is not None else "none"


def resource_url(settings: Settings) -> str:
    """The URL that clients know this server by, without a slash at its end."""
    if settings.auth.resource:
        return settings.auth.resource.rstrip("/")
    # Clients on this machine are all that can know an address that is none.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 (compared, not bound)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on ``host``; names other than localhost count as far away."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
