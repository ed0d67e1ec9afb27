"""The section ``feed``: limits of the change feed."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from coordinator.settings.setting import setting


class Feed(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of one front-end process."""

    listeners_most: Annotated[
        int,
        setting(
            "Listeners of the change feed (GET /feed/<project>) at a time; further ones are turned away with 503. "
            "Each takes about 15 KB and a connection.",
            ge=0,
            le=100_000,
            unit="listeners",
            reload=True,
        ),
    ] = 5_000
    caller_most: Annotated[
        int, setting("The same for one identified caller.", ge=1, le=100_000, unit="listeners", reload=True)
    ] = 200
    subscriptions_most: Annotated[
        int,
        setting(
            "Streams of the MCP request subscriptions/listen at a time; further ones are refused, with an error "
            "that says when to try again.",
            ge=0,
            le=100_000,
            unit="streams",
            reload=True,
        ),
    ] = 1_000
    caller_subscriptions_most: Annotated[
        int, setting("The same for one identified caller.", ge=1, le=100_000, unit="streams", reload=True)
    ] = 16
