"""The section ``feed``: limits of the change feed."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

_RELOAD = {"reload": True}


class Feed(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of one front-end process."""

    listeners_most: Annotated[
        int,
        Meta(
            description=(
                "Listeners of the change feed (GET /feed/<project>) at a time; further ones are turned away with 503. "
                "Each takes about 15 KB and a connection."
            ),
            ge=0,
            le=100_000,
            extra={"unit": "listeners", **_RELOAD},
        ),
    ] = 5_000
    caller_most: Annotated[
        int,
        Meta(
            description="The same for one identified caller.",
            ge=1,
            le=100_000,
            extra={"unit": "listeners", **_RELOAD},
        ),
    ] = 200
    subscriptions_most: Annotated[
        int,
        Meta(
            description=(
                "Streams of the MCP request subscriptions/listen at a time; further ones are refused, with an error "
                "that says when to try again."
            ),
            ge=0,
            le=100_000,
            extra={"unit": "streams", **_RELOAD},
        ),
    ] = 1_000
    caller_subscriptions_most: Annotated[
        int,
        Meta(
            description="The same for one identified caller.",
            ge=1,
            le=100_000,
            extra={"unit": "streams", **_RELOAD},
        ),
    ] = 16
