"""Derives from several settings how the HTTP endpoint authenticates, and the URL that clients know it by."""

from __future__ import annotations

import ipaddress
from typing import Literal
from urllib.parse import urlsplit

from coordinator.settings.model import Settings
from coordinator.settings.sections.identity import VerifierSettings

_DISCOVERY = "/.well-known/openid-configuration"

Mode = Literal["none", "optional", "required"]


def auth_verifier(settings: Settings) -> VerifierSettings | None:
    """The verifier of bearer tokens; None: there is none."""
    stated = settings.auth.verifier or settings.actor_authentication.verifier
    return None if stated.type == "noop" else stated


def auth_mode(settings: Settings) -> Mode:
    """The mode in force, with ``auto`` resolved."""
    auth = settings.auth
    if auth.mode != "auto":
        return auth.mode
    return "optional" if auth.tokens or auth_verifier(settings) is not None else "none"


def authorization_servers(settings: Settings) -> tuple[str, ...]:
    """Where clients can get tokens; empty: nowhere. By default the issuer of the tokens that the verifier accepts."""
    verifier = auth_verifier(settings)
    if settings.auth.authorization_servers or verifier is None:
        return settings.auth.authorization_servers
    issuer = verifier.issuer or (
        verifier.oidc_discovery.removesuffix(_DISCOVERY) if verifier.oidc_discovery.endswith(_DISCOVERY) else ""
    )
    return (issuer,) if issuer.startswith(("https://", "http://")) else ()


def console_url(settings: Settings) -> str:
    """Where people reach the console, without its path."""
    if settings.console.public_url:
        return settings.console.public_url
    if settings.console.listener == "admin":
        return base_url(settings.admin_host or settings.host, settings.admin_port)
    parts = urlsplit(resource_url(settings))
    return f"{parts.scheme}://{parts.netloc}"


def resource_url(settings: Settings) -> str:
    """The URL that clients know this server by, without a slash at its end."""
    if settings.auth.resource:
        return settings.auth.resource.rstrip("/")
    return base_url(settings.host, settings.port)


def base_url(host: str, port: int) -> str:
    """The URL of a port at which at least clients on this machine reach it."""
    # 0.0.0.0 and :: are no addresses to connect to.
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 (compared, not bound)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``. A name other than localhost counts as reachable from elsewhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
