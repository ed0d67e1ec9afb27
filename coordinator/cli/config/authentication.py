"""The part of ``fleet config check`` about the section ``auth``: who may call."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from coordinator.identity.callers.token_file import TokenFileError, read_tokens
from coordinator.settings import Settings
from coordinator.settings.effective_auth import Mode, auth_mode, auth_verifier, is_loopback, resource_url

_MODES: dict[Mode, str] = {
    "none": "anybody who reaches the port may call, and bearer tokens are ignored",
    "optional": "a bearer token identifies its caller, and an invalid one is refused; calls without one are served too",
    "required": "every call needs a bearer token",
}


def callers(settings: Settings) -> Iterator[str]:
    mode, auth = auth_mode(settings), settings.auth
    yield f"{mode}: {_MODES[mode]}"
    if mode == "none":
        return
    if auth.tokens:
        yield f"tokens are looked up in {auth.tokens}{_entries(Path(auth.tokens))}"
    verifier = auth_verifier(settings)
    if verifier is not None:
        whose = "auth.verifier" if auth.verifier is not None else "actor_authentication.verifier"
        audiences = " or ".join(filter(None, (verifier.audience, resource_url(settings))))
        yield f"tokens that are JWTs are checked with the keys of {whose}, and must be for {audiences}"
    default = ", ".join(sorted(auth.permissions_by_default)) or "nothing"
    also = ", also a JWT whose scopes are all of other servers" if auth.default_permissions is not None else ""
    yield f"a token that says nothing about permissions permits {default}{also}"
    if settings.admin_port:
        yield f"/metrics and /readyz are on port {settings.admin_port} only"


def notices(settings: Settings) -> Iterator[str]:
    """Settings that the operator may not have meant."""
    mode, auth = auth_mode(settings), settings.auth
    if mode == "none" and (auth.tokens or auth.verifier is not None):
        yield "auth.mode is none, so the tokens and the verifier of auth are ignored"
    if settings.insecure_no_auth and mode != "required" and not is_loopback(settings.host):
        yield f"insecure_no_auth: whoever reaches {settings.host} can do everything"
    if mode != "none" and auth.tokens:
        try:
            read_tokens(Path(auth.tokens))
        except TokenFileError as error:
            yield f"no fleet starts with this: {error}"
    if mode != "none" and auth_verifier(settings) is not None and not auth.resource and not is_loopback(settings.host):
        yield f"auth.resource is not set, so remote clients get the address {resource_url(settings)}"


def _entries(path: Path) -> str:
    try:
        tokens = read_tokens(path)[0].tokens
    except TokenFileError:
        return ""
    ended = sum(1 for entry in tokens if entry.expires is not None and entry.expires <= datetime.now(UTC))
    return f", which has {len(tokens)}" + (f", {ended} of them expired" if ended else "")
