"""The section ``runners``: what ``fleet run --runner NAME`` takes where no flag says otherwise."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from coordinator.settings.setting import setting
from coordinator.units import DURATION, DURATION_PATTERN, USAGE_PATTERN

RunnerName = Annotated[
    str,
    setting(
        pattern=r"^[a-z][a-z0-9_-]{0,49}\Z",
        allowed="a name of 1 to 50 lower-case letters, digits, '-' and '_', a letter first",
    ),
]
_Time = Annotated[str, setting(pattern=DURATION_PATTERN, allowed=DURATION, one=True)]
_Words = Annotated[tuple[str, ...], setting(one=True, allowed="a list of words")]
_Names = Annotated[tuple[str, ...], setting(one=True, allowed="a list of names")]


class Runner(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One entry of ``runners``; each field is the flag of that name of ``fleet run``. None, empty: not said."""

    command: _Words = ()
    url: str | None = None
    project: str | None = None
    token_file: str | None = None
    tags: str | None = None
    type: str | None = None
    priority: str | None = None
    parent: str | None = None
    ancestor: str | None = None
    capability: _Names = ()
    until_tree: str | None = None
    slots: Annotated[int, setting(ge=1, le=200)] | None = None
    ttl: _Time | None = None
    timeout: _Time | None = None
    stall: _Time | None = None
    max_items: Annotated[int, setting(ge=0)] | None = None
    max_cost: Annotated[float, setting(ge=0)] | None = None
    max_time: _Time | None = None
    usage_per_attempt: (
        Annotated[
            str,
            setting(
                pattern=USAGE_PATTERN,
                allowed="cost=DOLLARS or tokens=NUMBER, after commas, as in cost=25,tokens=50000000",
            ),
        ]
        | None
    ) = None
    drain: _Time | None = None
    preset: str | None = None
    worktree: str | None = None
    base: str | None = None
    fresh: bool | None = None
    salvage: bool | None = None
    min_free: Annotated[float, setting(ge=0)] | None = None
    disposable: _Names = ()
    workspace: str | None = None
    setup: str | None = None
    before: str | None = None
    after: str | None = None
    teardown: str | None = None
    verify: str | None = None
    require_changes: bool | None = None
    allow_denials: bool | None = None
    yolo: bool | None = None
    mcp: bool | None = None
    env: _Names = ()
    instructions: str | None = None
    state_dir: str | None = None
    metrics: str | None = None
    metrics_target: str | None = None


Runners = dict[RunnerName, Runner]
