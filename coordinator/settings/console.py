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
        Meta(description="How long a person stays signed in.", ge=1, le=720, extra={"unit": "hours"}),
    ] = 12
