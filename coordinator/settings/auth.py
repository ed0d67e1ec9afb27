"""The section ``auth``: who is let in at the HTTP endpoint, and who may listen where.

What the section means to a running process is the business of ``coordinator.identity.door``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from coordinator.settings.example_sections import AUTH_VERIFIER
from coordinator.settings.identity import Path, VerifierSettings, located, verifier_problems

if TYPE_CHECKING:
    from coordinator.settings.load import Loaded
    from coordinator.settings.model import Settings

Mode = Literal["none", "optional", "required"]

_URL = r"https?://[^\s/@?#]+(/[^\s@?#]*)?"

Issuer = Annotated[
    str, Meta(pattern=rf"^{_URL}\Z", extra={"allowed": "an https:// (or http://) URL without '?' and '#'"})
]
Permission = Annotated[
    str,
    Meta(
        pattern=r"^(\*(\.read)?|[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*)\Z",
        extra={
            "allowed": "a permission: a toolset or '*', optionally with '.read' behind it; 'workflow' or "
            "'workflow.admin'; the name of a tool that workflow steps may call, or of its connection"
        },
    ),
]


class Auth(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The section ``auth``."""

    mode: Annotated[
        Literal["auto", "none", "optional", "required"],
        Meta(
            description=(
                "Whether requests need a bearer token. none: tokens are ignored. optional: one that is presented must "
                "be valid, and says who is calling. required: nobody gets in without one. auto: optional if there is "
                "a token file or a verifier of type jwks, else none."
            ),
            extra={"group": "Front door", "reload": True},
        ),
    ] = "auto"
    tokens: Annotated[
        str,
        Meta(
            description=(
                "The token file, which `fleet token` writes: SHA-256 digests of tokens, and whose they are. It is read "
                "again when it changes. A relative path written in a config file starts at that file's directory."
            ),
            extra={"allowed": "empty or a file path", "reload": True},
        ),
    ] = ""
    resource: Annotated[
        str,
        Meta(
            pattern=rf"^({_URL})?\Z",
            description=(
                "The URL that clients know this server by, without '/mcp'. Tokens that name an audience must name it, "
                "or the verifier's audience; its host is an accepted Host header. Empty: http:// with host and port."
            ),
            extra={"allowed": "empty or an https:// (or http://) URL without '?' and '#'", "reload": True},
        ),
    ] = ""
    authorization_servers: Annotated[
        tuple[Issuer, ...],
        Meta(
            description=(
                "Who issues tokens (OAuth), as clients are told in the protected resource metadata. Empty: the "
                "verifier's issuer."
            ),
            extra={"reload": True},
        ),
    ] = ()
    default_permissions: Annotated[
        tuple[Permission, ...],
        Meta(
            description=(
                "What a valid token permits that says nothing about permissions: toolsets ('items'), or those of "
                "their tools that only read ('items.read'); '*' is every toolset."
            ),
            extra={"reload": True},
        ),
    ] = ("*",)
    verifier: Annotated[
        VerifierSettings | None,
        Meta(
            description=(
                "What verifies bearer tokens that are JWTs, with the keys of actor_authentication.verifier. Left out: "
                "that very verifier."
            ),
            extra={
                "allowed": "a mapping as actor_authentication.verifier",
                "reload": True,
                "example": AUTH_VERIFIER,
            },
        ),
    ] = None


def door_verifier(settings: Settings) -> VerifierSettings | None:
    """What verifies bearer tokens; None: nothing does."""
    stated = settings.auth.verifier or settings.actor_authentication.verifier
    return None if stated.type == "noop" else stated


def door_mode(settings: Settings) -> Mode:
    """The mode in force."""
    auth = settings.auth
    if auth.mode != "auto":
        return auth.mode
    return "optional" if auth.tokens or door_verifier(settings) is not None else "none"


def door_resource(settings: Settings) -> str:
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


def auth_problems(settings: Settings, broken: Collection[str]) -> Iterator[tuple[Path, str]]:
    """What is wrong in ``auth``, and between it and the address: where, and a sentence.

    Args:
        broken: settings that are wrong in themselves, about which nothing can be said.
    """
    if {"auth", "actor_authentication"} & set(broken):
        return
    auth, mode = settings.auth, door_mode(settings)
    if auth.verifier is not None:
        here: Path = ("auth", "verifier")
        if auth.verifier.type == "noop":
            yield here, "auth.verifier.type must be jwks: noop would verify no token"
        yield from verifier_problems(auth.verifier, here)
    if mode != "none" and not auth.tokens and door_verifier(settings) is None:
        yield (
            ("auth", "mode"),
            f"auth.mode is {mode}, so somebody must know valid tokens: give auth.tokens, or a verifier of type jwks "
            "(auth.verifier or actor_authentication.verifier)",
        )
    if "host" in broken or is_loopback(settings.host) or mode == "required" or settings.insecure_no_auth:
        return
    yield (
        ("host",),
        f"host {settings.host} can be reached from other machines, and auth.mode is {mode}, so anybody there could "
        "use the fleet: set auth.mode to required, or say --insecure-no-auth if something else keeps strangers out",
    )


def unsaid(before: Loaded[Settings], now: Loaded[Settings]) -> Iterator[str]:
    """What must not come about because something is missing: sentences about changed settings that let more in.

    A file that is being written, or has lost a part, looks like one in which somebody has taken these settings
    out. So whoever wants a running process to let more in has to say so.
    """
    if before.lines and not now.lines:
        yield f"{now.config} says nothing any more; a restart would go back to the defaults"
    held = before.settings
    for name, strict, is_now in (
        ("auth.mode", door_mode(held) == "required", door_mode(now.settings)),
        (
            "actor_authentication.degraded_mode_policy",
            held.actor_authentication.policy == "reject",
            now.settings.actor_authentication.policy,
        ),
    ):
        if strict and before.sources[name] != "default" and now.sources[name] == "default":
            yield f"{name} is not stated any more, which would make it {is_now}: say so if that is meant"


def located_auth(auth: Auth, tokens_base: FilePath, keys_base: FilePath) -> Auth:
    """The section with absolute paths.

    Args:
        tokens_base: where a relative path of a token file starts.
        keys_base: where one of a key file starts.
    """
    tokens = str((tokens_base / FilePath(auth.tokens).expanduser()).absolute()) if auth.tokens else ""
    verifier = located(auth.verifier, keys_base) if auth.verifier is not None else None
    return msgspec.structs.replace(auth, tokens=tokens, verifier=verifier)
