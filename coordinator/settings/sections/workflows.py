"""The sections ``workflows`` and ``signing``: where definitions are, and what tokens are signed with."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Struct

from coordinator.settings.paths import Locate
from coordinator.settings.setting import setting

_DIRECTORY = {"one": True, "allowed": "a directory path, or a list of them"}

SigningKey = Annotated[
    str,
    setting(
        pattern=r"^[A-Za-z0-9_-]{1,32}:[0-9A-Fa-f]{64}\Z",
        secret=True,
        allowed="a key: an id of up to 32 letters, digits, '-' and '_', a colon, and 64 hex digits",
    ),
]


class Workflows(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    sessions: Annotated[
        tuple[str, ...],
        setting(
            "Directories with the workflow definitions of the toolset sessions; a workflow that is in "
            "several of them is taken from the first. Changes on disk are taken over while the fleet runs. "
            "Empty: the examples that come with the product. A relative path written in a config file starts "
            "at that file's directory, elsewhere at the working directory.",
            group="Workflows",
            environment="FLEET_SESSION_WORKFLOWS",
            **_DIRECTORY,
        ),
    ] = ()
    navigator: Annotated[
        tuple[str, ...],
        setting("The same, for the toolset navigator.", environment="FLEET_NAVIGATOR_WORKFLOWS", **_DIRECTORY),
    ] = ()
    min_checkpoint_response_seconds: Annotated[
        int,
        setting(
            "Shortest time between yielding a checkpoint and choosing an option.",
            ge=0,
            le=3_600,
            unit="seconds",
            environment="FLEET_MIN_CHECKPOINT_RESPONSE_SECONDS",
        ),
    ] = 3
    session_days: Annotated[
        int,
        setting(
            "How long a workflow session is kept after its last call.",
            ge=1,
            le=3_650,
            unit="days",
            environment="FLEET_SESSION_DAYS",
        ),
    ] = 30


class Signing(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    keys: Annotated[
        tuple[SigningKey, ...],
        setting(
            "Keys for the tokens of workflow sessions and of the navigator, and for what clients keep for the "
            "fleet. The first key signs, all of them verify. To rotate, put the new key first, and drop the old "
            "one when its tokens no longer matter. "
            "Empty: the fleet makes its own and keeps them in Redis.",
            secret=True,
            group="Tokens of workflows",
        ),
    ] = ()
    key_days: Annotated[
        int,
        setting(
            "How long a key made by the fleet signs before a new one takes over. The four previous keys still "
            "verify, so a token stays valid for at least four times as long.",
            ge=1,
            le=3_650,
            unit="days",
        ),
    ] = 90


def located_workflows(section: Workflows, sessions: Locate, navigator: Locate) -> Workflows:
    """The section with absolute paths. Raises SettingsError."""
    return msgspec.structs.replace(
        section,
        sessions=tuple(map(sessions, section.sessions)),
        navigator=tuple(map(navigator, section.navigator)),
    )
