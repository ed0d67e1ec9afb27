"""Decides what came of an attempt: pure functions of how the command ended and what it said."""

from __future__ import annotations

import errno
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from coordinator.runner.protocols import Reading
from coordinator.runner.result_file import ResultFile
from coordinator.runner.supervision.processes import Ended

Kind = Literal["done", "later", "failed", "hopeless", "blocked", "broken", "lost"]
"""done: the item is completed, or goes to review. later: it is handed back, which does not count. failed: an attempt
that counts. hopeless: nobody should try again, so the item is quarantined. blocked: the command itself has set the item
aside. broken: it is the runner's fault: the item is handed back, and the runner stops. lost: the claim was, so nothing
is said about the item."""
KINDS: tuple[Kind, ...] = ("done", "later", "failed", "hopeless", "blocked", "broken", "lost")
Stop = Literal["", "lost", "drain", "spent", "timeout", "stall", "finished"]
"""Why the runner ended the command: "spent" is that a budget is; "finished" is some time after its final event."""
_ORDER: tuple[Kind, ...] = ("done", "later", "failed", "hopeless")
HOPELESS, LATER, NOT_EXECUTABLE, NOT_FOUND = 65, 75, 126, 127
EXIT_CODES: Mapping[int, Kind] = {HOPELESS: "hopeless", LATER: "later", NOT_EXECUTABLE: "broken", NOT_FOUND: "broken"}
"""What exit codes mean, for every command."""
STOPPING = "the runner stops"
_STOPS: Mapping[Stop, tuple[Kind, str]] = {
    "lost": ("lost", "the claim was lost"),
    "drain": ("later", STOPPING),
    "spent": ("later", "a budget is spent"),
    "timeout": ("failed", "it ran longer than --timeout allows"),
    "stall": ("failed", "it stalled: no output, no CPU time and no changed file for as long as --stall allows"),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt."""

    kind: Kind
    reason: str
    """In a sentence without a full stop; empty for done."""
    retry_after_seconds: float | None = None
    pauses: bool = False
    """The next item would fare alike: the provider of the model refused or failed, or there is no room."""


def judge(
    ended: Ended,
    stop: Stop,
    reading: Reading,
    result: ResultFile | None,
    *,
    exit_codes: Mapping[int, Kind] = EXIT_CODES,
    speaks: bool = False,
    allow_denials: bool = False,
    last_words: str = "",
) -> Outcome:
    """What came of the command, before its work is verified.

    Args:
        speaks: its output ends with an event that says whether it has succeeded.
        last_words: of its output, for where nothing better is known.
    """
    outcome = _by_end(ended, stop, reading, exit_codes, speaks, allow_denials, last_words)
    if result is None or result.outcome is None or outcome.kind not in _ORDER:
        return outcome
    # A result may lower a success, and never raise a failure.
    if _ORDER.index(result.outcome) > _ORDER.index(outcome.kind):
        words = result.summary or (result.result if isinstance(result.result, str) else "") or "no reason given"
        outcome = Outcome(result.outcome, f"its result says {result.outcome}: {_line(words)}")
    if outcome.kind == "later" and outcome.retry_after_seconds is None and result.retry_after_seconds is not None:
        return Outcome(outcome.kind, outcome.reason, result.retry_after_seconds, pauses=True)
    return outcome


def _by_end(
    ended: Ended,
    stop: Stop,
    reading: Reading,
    exit_codes: Mapping[int, Kind],
    speaks: bool,
    allow_denials: bool,
    last_words: str,
) -> Outcome:
    if stop in _STOPS:
        return Outcome(*_STOPS[stop])
    if ended.failed:
        code = NOT_EXECUTABLE if ended.errno in (errno.EACCES, errno.ENOEXEC) else NOT_FOUND
        return Outcome("broken", f"the command cannot be started ({code}): {ended.failed}")
    if ended.unsupervised:
        return Outcome("later", "its supervisor was killed, or this runner was frozen")
    if (trouble := _by_trouble(reading)) is not None:
        return trouble
    words = _line(reading.error or last_words)
    said = f": {words}" if words else ""
    by_us = stop == "finished" and reading.success is True
    if ended.code and not by_us:
        kind = exit_codes.get(ended.code, "failed")
        # Shells say so of a command that a signal ended.
        number = -ended.code if ended.code < 0 else ended.code - 128
        if kind == "failed" and 0 < number < signal.NSIG and (ended.code < 0 or number in (9, 11, 15)):
            return Outcome("failed", f"{_signal_name(number)} ended it{_memory(number)}{said}")
        return Outcome(kind, f"exit code {ended.code}{said}")
    if reading.success is False:
        return Outcome("failed", f"it says that it failed{said}")
    if reading.denials and not allow_denials:
        return Outcome("failed", f"it was not permitted to: {_line('; '.join(reading.denials))}")
    if speaks and reading.success is None:
        return Outcome("failed", f"it ended without its final event, as if it was interrupted{said}")
    return Outcome("done", "")


def _by_trouble(reading: Reading) -> Outcome | None:
    """What its own word on a failure means; None: it has none, or succeeded nevertheless."""
    if reading.trouble is None or reading.success is True:
        return None
    said = _line(reading.error)
    after = reading.retry_after_seconds
    if reading.trouble == "rate_limit":
        return Outcome("later", f"the provider's limit is reached: {said}", after, pauses=True)
    if reading.trouble == "provider":
        return Outcome("later", f"the provider failed: {said}", after, pauses=True)
    if reading.trouble == "auth":
        return Outcome("broken", f"the provider refused the credentials: {said}", pauses=True)
    if reading.trouble == "usage":
        return Outcome("broken", f"the command line is wrong: {said}")
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _memory(number: int) -> str:
    return " (perhaps no memory was left)" if number == signal.SIGKILL else ""


def _line(text: str, most: int = 300) -> str:
    """A text on one line, without control characters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= most else line[: most - 3] + "..."
