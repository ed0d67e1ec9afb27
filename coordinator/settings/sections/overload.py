"""The section ``overload``: when a front-end sheds calls."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from coordinator.settings.setting import setting


class Overload(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of one front-end process."""

    store_target_ms: Annotated[
        float,
        setting(
            "Target response time of the store. When responses take longer, and more than twice the usual time, "
            "fewer calls are admitted at a time.",
            ge=1,
            le=10_000,
            unit="milliseconds",
            reload=True,
        ),
    ] = 50.0
    least_limit: Annotated[
        int,
        setting(
            "Calls that are always admitted at a time, however slow the store is.",
            ge=1,
            le=1_000,
            unit="calls",
            reload=True,
        ),
    ] = 8
    most_limit: Annotated[
        int, setting("Calls admitted at a time when the store is fast.", ge=1, le=10_000, unit="calls", reload=True)
    ] = 128
    hard_limit: Annotated[
        int,
        setting(
            "Calls at a time beyond which also heartbeats, releases, transitions and reports have to wait; must "
            "not be below most_limit.",
            ge=1,
            le=20_000,
            unit="calls",
            reload=True,
        ),
    ] = 1_024
    queue_most: Annotated[
        int,
        setting(
            "Calls that may wait for admission at a time; further ones are shed.",
            ge=0,
            le=10_000,
            unit="calls",
            reload=True,
        ),
    ] = 1_024
    queue_ms: Annotated[
        int,
        setting(
            "How long a call may wait for admission; must be below request_deadline_ms.",
            ge=1,
            le=10_000,
            unit="milliseconds",
            reload=True,
        ),
    ] = 250
    parked_most: Annotated[
        int,
        setting(
            "Calls that may wait for an event at a time, such as claims with waitMs.",
            ge=1,
            le=100_000,
            unit="calls",
            reload=True,
        ),
    ] = 10_000
    actor_share: Annotated[
        float,
        setting(
            "Share of the limit that one agent may use while the front-end is busy and others call too.",
            gt=0,
            le=1,
            reload=True,
        ),
    ] = 0.25
    project_share: Annotated[float, setting("The same for one project.", gt=0, le=1, reload=True)] = 0.75
    breaker_open_ms: Annotated[
        int,
        setting(
            "How long calls to the store are paused after half of the calls within a second have failed. It "
            "grows with each further failure.",
            ge=10,
            le=60_000,
            unit="milliseconds",
            reload=True,
        ),
    ] = 500


def overload_problems(overload: Overload, request_deadline_ms: int) -> list[tuple[str, str]]:
    """Contradictions in the section: the field and the problem."""
    found = []
    if overload.most_limit < overload.least_limit:
        found.append(("most_limit", f"must not be below least_limit ({overload.least_limit})"))
    if overload.hard_limit < overload.most_limit:
        found.append(("hard_limit", f"must not be below most_limit ({overload.most_limit})"))
    if overload.queue_ms >= request_deadline_ms:
        found.append(("queue_ms", f"must be below request_deadline_ms ({request_deadline_ms})"))
    return found
