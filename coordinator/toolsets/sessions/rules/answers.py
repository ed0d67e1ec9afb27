"""Answers to checkpoints: checks, effects and storage (README.md, 'Checkpoints')."""

from __future__ import annotations

from math import ceil
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from coordinator.definitions import Checkpoint, Option
from coordinator.errors import ToolFailure
from coordinator.toolsets.sessions.contract.arguments import RespondCheckpoint
from coordinator.toolsets.sessions.rules.refusals import SHOWN

How = Literal["option_id", "auto_advance", "condition_not_met"]


class GivenAnswer(msgspec.Struct, array_like=True):
    """An answer as a front-end passes it to the store."""

    checkpoint: str
    activity: str
    how: str
    option: str
    """Empty if the checkpoint was dismissed."""
    agent: str
    effect: dict[str, Any] = {}
    via: str = ""
    """How the answer came, if not by a call of its own: ``client``."""


class KeptAnswer(msgspec.Struct, array_like=True):
    at: int
    """In milliseconds."""
    visit: int
    """The visit to an activity in which it was given; visits are counted over the session."""
    order: int
    """The session's ``seq`` before it."""
    given: GivenAnswer


class Resolution(NamedTuple):
    """How a checkpoint is answered, or why it cannot be."""

    how: How
    option: str = ""
    effect: dict[str, Any] = {}
    least_ms: int = 0
    """The shortest time between the yield and the answer."""
    problem: ToolFailure | None = None
    """Why the checkpoint cannot be answered this way."""
    late: ToolFailure | None = None
    """The same, for problems that are reported only after the shortest time has passed."""


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(KeptAnswer).decode


def mode(args: RespondCheckpoint) -> How | None:
    """The way of answering chosen by the arguments; None if none or several. False chooses nothing."""
    named: list[How] = []
    if args.option_id is not None:
        named.append("option_id")
    if args.auto_advance:
        named.append("auto_advance")
    if args.condition_not_met:
        named.append("condition_not_met")
    return named[0] if len(named) == 1 else None


def resolution(checkpoint: Checkpoint, how: How, option_id: str, least_seconds: int) -> Resolution:
    """Checks an answer, and resolves its option and effect.

    Args:
        least_seconds: the shortest time between the yield and an answer by option.
    """
    if how == "option_id":
        least = least_seconds * 1000
        option = checkpoint.option(option_id)
        if option is None:
            valid = ", ".join(one.id for one in checkpoint.options)
            wrong = invalid_option(f"Invalid option '{option_id[:SHOWN]}' for checkpoint '{checkpoint.id}'", valid)
            return Resolution(how, least_ms=least, late=wrong)
        return Resolution(how, option.id, effect(option), least)
    if how == "auto_advance":
        return _by_default(checkpoint)
    if checkpoint.condition is UNSET:
        words = f"Cannot dismiss checkpoint '{checkpoint.id}': it has no condition field"
        return Resolution(how, problem=ToolFailure("VALIDATION_ERROR", f"{words}. Have the user choose an option."))
    return Resolution(how)


def _by_default(checkpoint: Checkpoint) -> Resolution:
    cannot = f"Cannot auto-advance checkpoint '{checkpoint.id}'"
    if checkpoint.default_option is UNSET or checkpoint.auto_advance_ms is UNSET:
        words = f"{cannot}: missing defaultOption or autoAdvanceMs. Have the user choose an option."
        return Resolution("auto_advance", problem=ToolFailure("VALIDATION_ERROR", words))
    if checkpoint.blocking:
        words = f"{cannot}: it is blocking (only blocking: false may be). Have the user choose an option."
        return Resolution("auto_advance", problem=ToolFailure("VALIDATION_ERROR", words))
    least = checkpoint.auto_advance_ms
    option = checkpoint.option(checkpoint.default_option)
    if option is None:
        words = f"Default option '{checkpoint.default_option}' not found in checkpoint '{checkpoint.id}'."
        return Resolution("auto_advance", least_ms=least, late=ToolFailure("VALIDATION_ERROR", words))
    return Resolution("auto_advance", option.id, effect(option), least)


def invalid_option(words: str, valid: str) -> ToolFailure:
    return ToolFailure("VALIDATION_ERROR", f"{words}. Valid options: [{valid}]")


def too_early(checkpoint: str, how: How, waited_ms: int, least_ms: int) -> ToolFailure:
    waited, least = waited_ms // 1000, ceil(least_ms / 1000)
    if how == "auto_advance":
        words = (
            f"Auto-advance timer not elapsed for checkpoint '{checkpoint}' ({waited}s < {least}s). "
            f"Wait for all of autoAdvanceMs ({least_ms} ms)."
        )
    else:
        words = (
            f"Checkpoint response too fast ({waited}s < {least}s minimum). Present the checkpoint to the user and "
            "wait for an answer."
        )
    return ToolFailure("checkpoint_too_early", words, retry_after_ms=least_ms - waited_ms)


def effect(option: Option) -> dict[str, Any]:
    """The option's effect, as defined; empty for none."""
    found: dict[str, Any] = msgspec.to_builtins(option.effects)
    return found


def nothing_named() -> ToolFailure:
    return ToolFailure("VALIDATION_ERROR", "Either checkpoint_handle or session_token must be provided.")


def no_one_way() -> ToolFailure:
    """The failure of a call that chooses no way of answering, or several."""
    words = "Exactly one of option_id, auto_advance, or condition_not_met must be provided."
    return ToolFailure("VALIDATION_ERROR", words)
