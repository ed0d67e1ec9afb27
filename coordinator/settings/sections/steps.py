"""The section ``steps``: how workers execute steps, and where steps wait for them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from coordinator.settings import example_sections as examples
from coordinator.settings.paths import REDIS_ALLOWED, REDIS_PATTERN
from coordinator.settings.setting import setting

Pool = Annotated[
    str,
    setting(
        pattern=r"^[a-z][a-z0-9_-]{0,49}\Z", allowed="1 to 50 lower-case letters, digits, '-' and '_', a letter first"
    ),
]
Project = Annotated[
    str,
    setting(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}\Z",
        allowed="1 to 63 lower-case letters, digits, '-' and '_', a letter or digit first",
    ),
]


class StepSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    slots: Annotated[
        int,
        setting(
            "Steps that one worker process executes at once. They share an event loop, so steps that wait for "
            "the network cost almost nothing.",
            ge=1,
            le=1024,
            group="Steps",
            unit="steps",
        ),
    ] = 32
    children: Annotated[
        int,
        setting(
            "Child processes of a worker for Python callables that are not coroutine functions: each runs one "
            "call at a time, and is killed when the call takes too long. 0 takes the number of processors.",
            ge=0,
            le=256,
            unit="processes",
        ),
    ] = 0
    pools: Annotated[
        tuple[Pool, ...],
        setting(
            "Pools that a worker serves. A step waits in the pool that its flow names, else in its project's, "
            "else in 'default'.",
            min_length=1,
        ),
    ] = ("default",)
    project_limit: Annotated[
        int,
        setting(
            "How many steps of one project may be queued or running at once; further ones wait. 0 sets no limit.",
            ge=0,
            le=1_000_000,
            unit="steps",
        ),
    ] = 0
    queue_url: Annotated[
        str,
        setting(
            "A separate Redis for RQ's queues. Empty: they are in the store's Redis, which saves a round trip "
            "per step.",
            pattern=REDIS_PATTERN,
            allowed=REDIS_ALLOWED,
            secret=True,
        ),
    ] = ""
    retention_days: Annotated[
        int, setting("How long a finished flow is kept, with the results of its steps.", ge=1, le=3650, unit="days")
    ] = 7
    project_pools: Annotated[
        dict[Project, Pool] | None,
        setting(
            "The pool of each project whose steps do not wait in 'default'.",
            allowed="a mapping of projects to pools",
            example=examples.PROJECT_POOLS,
        ),
    ] = None
    project_limits: Annotated[
        dict[Project, Annotated[int, setting(ge=0, le=1_000_000)]] | None,
        setting(
            "Limits of single projects, in place of project_limit.",
            allowed="a mapping of projects to numbers from 0 to 1000000",
            example=examples.PROJECT_LIMITS,
        ),
    ] = None
