"""The section ``console``: the web page where people see and steer the fleet."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class Console(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The console of each front-end."""

    enabled: Annotated[bool, Meta(description="Serve the console at /console.")] = True
    listener: Annotated[
        Literal["clients", "admin"],
        Meta(description="The port that serves it: that of MCP clients, or admin_port, which then has to be set."),
    ] = "clients"
    session_hours: Annotated[
        int,
        Meta(
            description="How long a person stays signed in, if the credential does not end before.",
            ge=1,
            le=720,
            extra={"unit": "hours"},
        ),
    ] = 12
    public_url: Annotated[
        str,
        Meta(
            pattern=r"^(https?://[^\s/@?#]+)?\Z",
            description=(
                "Where people reach the console: scheme, host and port. Its host is an accepted Host header. Empty: "
                "auth.resource, or where the front-ends listen. From other machines, people sign in over HTTPS only, "
                "unless this begins with http://."
            ),
            extra={"allowed": "empty or an https:// (or http://) URL without a path"},
        ),
    ] = ""
