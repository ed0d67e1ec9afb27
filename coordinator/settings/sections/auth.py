"""The section ``auth``: who may call the HTTP endpoint.

``effective_auth`` combines it with other settings, and ``coordinator.identity.callers.authenticator`` applies it.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Struct

from coordinator.settings.example_sections import AUTH_VERIFIER
from coordinator.settings.paths import Locate
from coordinator.settings.sections.identity import VerifierSettings, located_verifier
from coordinator.settings.setting import setting

_URL = r"https?://[^\s/@?#]+(/[^\s@?#]*)?"

Issuer = Annotated[str, setting(pattern=rf"^{_URL}\Z", allowed="an https:// (or http://) URL without '?' and '#'")]
Permission = Annotated[
    str,
    setting(
        pattern=r"^(\*(\.read)?|[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*)\Z",
        allowed="a permission: a toolset or '*', optionally with '.read' behind it; 'workflow', "
        "'workflow.admin', 'items.admin' or 'operate'; the name of a tool that workflow steps may call, or of its "
        "connection",
    ),
]


class Auth(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    mode: Annotated[
        Literal["auto", "none", "optional", "required"],
        setting(
            "Whether requests need a bearer token. none: tokens are ignored. optional: a token that is "
            "presented must be valid, and identifies the caller. required: requests without a valid token "
            "are rejected. auto: optional if there is a token file or a verifier of type jwks, else none.",
            group="Authentication",
            reload=True,
        ),
    ] = "auto"
    tokens: Annotated[
        str,
        setting(
            "The token file, which `fleet token` writes: SHA-256 digests of tokens, and their bearers. It is "
            "read again when it changes. A relative path written in a config file starts at that file's "
            "directory.",
            allowed="empty or a file path",
            reload=True,
        ),
    ] = ""
    resource: Annotated[
        str,
        setting(
            "The URL that clients know this server by, without '/mcp'. Tokens that name an audience must name it, "
            "or the verifier's audience; its host is an accepted Host header. Empty: http:// with host and port.",
            pattern=rf"^({_URL})?\Z",
            allowed="empty or an https:// (or http://) URL without '?' and '#'",
            reload=True,
        ),
    ] = ""
    authorization_servers: Annotated[
        tuple[Issuer, ...],
        setting(
            "The OAuth issuers that the protected resource metadata names to clients. Empty: the verifier's issuer.",
            reload=True,
        ),
    ] = ()
    default_permissions: Annotated[
        tuple[Permission, ...] | None,
        setting(
            "What a valid token permits if it does not state permissions itself: toolsets ('items'), or "
            "those of their tools that only read ('items.read'); '*' is every toolset, 'operate' not included. "
            "Left out: everything, but nothing for a JWT whose scopes are all of other servers ('openid "
            "profile'); a value set here applies to these JWTs too.",
            reload=True,
        ),
    ] = None
    jwt_longest_seconds: Annotated[
        int,
        setting(
            "Longest remaining lifetime of a bearer token that is a JWT; longer ones are rejected.",
            ge=60,
            le=315_360_000,
            unit="seconds",
            reload=True,
        ),
    ] = 604_800

    @property
    def permissions_by_default(self) -> frozenset[str]:
        """What a token without permissions of its own permits."""
        return frozenset(("*",) if self.default_permissions is None else self.default_permissions)

    verifier: Annotated[
        VerifierSettings | None,
        setting(
            "What verifies bearer tokens that are JWTs, with the keys of actor_authentication.verifier. Left "
            "out: the same verifier.",
            allowed="a mapping as actor_authentication.verifier",
            reload=True,
            example=AUTH_VERIFIER,
        ),
    ] = None


def located_auth(auth: Auth, tokens: Locate, keys: Locate) -> Auth:
    """The section with absolute paths of the token file and of key files. Raises SettingsError."""
    verifier = located_verifier(auth.verifier, keys) if auth.verifier is not None else None
    return msgspec.structs.replace(auth, tokens=tokens(auth.tokens) if auth.tokens else "", verifier=verifier)
