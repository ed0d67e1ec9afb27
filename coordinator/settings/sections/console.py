"""The section ``console``: the web page where people see and steer the fleet."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from coordinator.settings.example_sections import CONSOLE_OAUTH
from coordinator.settings.problems import Faults
from coordinator.settings.setting import setting

_Scope = Annotated[str, setting(pattern=r"^[!#-\[\]-~]+\Z", allowed="a scope, without blanks")]


class OAuth(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """How the console is known to the authorization server.

    Raises:
        Faults: it has two secrets.
    """

    client_id: Annotated[str, setting(min_length=1, allowed="the console's id there")]
    client_secret: Annotated[str, setting(secret=True)] = ""
    client_secret_env: Annotated[
        str, setting(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?\Z", allowed="the name of an environment variable")
    ] = ""
    scopes: Annotated[tuple[_Scope, ...], setting(one=True, allowed="a list of scopes")] = ()

    def __post_init__(self) -> None:
        if self.client_secret and self.client_secret_env:
            raise Faults([((), "takes either client_secret or client_secret_env, not both")])


class Console(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The console of each front-end."""

    enabled: Annotated[bool, setting("Serve the console at /console.")] = True
    listener: Annotated[
        Literal["clients", "admin"],
        setting("The port that serves it: that of MCP clients, or admin_port, which then has to be set."),
    ] = "clients"
    session_hours: Annotated[
        int,
        setting(
            "How long a person stays signed in, if the credential does not end before.", ge=1, le=720, unit="hours"
        ),
    ] = 12
    public_url: Annotated[
        str,
        setting(
            "Where people reach the console: scheme, host and port. Its host is an accepted Host header. Empty: "
            "auth.resource, or where the front-ends listen. From other machines, people sign in over HTTPS only, "
            "unless this begins with http://.",
            pattern=r"^(https?://[^\s/@?#]+)?\Z",
            allowed="empty or an https:// (or http://) URL without a path",
        ),
    ] = ""
    oauth: Annotated[
        OAuth | None,
        setting(
            "Lets people sign in at the first authorization server (auth.authorization_servers, or the verifier's "
            "issuer), by the authorization code flow with PKCE. client_id; client_secret or client_secret_env, the "
            "variable that holds it, if the console is registered with one; scopes: those to ask for (openid: the "
            "id token is checked, too). The redirect URI to register is /console/signin/callback at public_url.",
            allowed="a mapping of client_id, client_secret or client_secret_env, and scopes",
            example=CONSOLE_OAUTH,
        ),
    ] = None
