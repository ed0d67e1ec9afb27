"""What the parts of the runner are to each other: an attempt, its workspace, and the reader of its output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

Stream = Literal["stdout", "stderr"]
Trouble = Literal["rate_limit", "provider", "auth", "usage", "limit", "interrupted", "error"]
"""Why an agent's command line did not finish: the provider's rate limit or spent quota; the provider is down or failed;
it refused the credentials; the command line itself is wrong; a limit of turns or money that the agent had; it was
interrupted; anything else."""


@dataclass(frozen=True, slots=True)
class JobAttempt:
    """One run of the command for one claimed item."""

    item_id: str
    title: str
    number: int
    """The attempt's number, from 1. An end that is not counted gives the next run the same one."""
    label: str
    """``number``, or ``number-2`` ... where the number was used before: unique for the item, on this host."""
    run_id: str
    """32 hex digits; the command and all that it starts have it in their environment, as FLEET_RUN."""
    directory: Path
    """Its own directory for logs, prompt and result, which exists (0700)."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment of the command, for hooks too. Never printed."""

    @property
    def name(self) -> str:
        """``<item8>-<label>``, for names of branches and directories."""
        return f"{self.item_id.replace('-', '')[:8]}-{self.label}"


class Job(Protocol):
    """A claimed item, as the client hands it out; its claim is renewed meanwhile."""

    @property
    def item(self) -> Mapping[str, Any]:
        """The item in full."""

    @property
    def notes(self) -> Sequence[Mapping[str, Any]]:
        """Its notes, oldest first."""

    @property
    def results(self) -> Sequence[Mapping[str, Any]]:
        """What its blockers have left."""

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""

    @property
    def takeover(self) -> bool:
        """Whether another agent has begun it."""


class WorkspaceFailed(Exception):
    """A workspace could not be made, or not be committed; the message says why, for a person.

    Args:
        broken: it is the fault of the runner's host or options (no repository, disk full): further items would fail
            too, so the attempt is not counted and the runner stops.
        later: it may be better later (too little room): the attempt is not counted, and claiming pauses. Without
            either, the attempt has failed.
    """

    def __init__(self, message: str, *, broken: bool = False, later: bool = False) -> None:
        super().__init__(message)
        self.broken, self.later = broken, later


class Workspace(Protocol):
    @property
    def path(self) -> Path:
        """The directory in which the command starts."""

    @property
    def remarks(self) -> Sequence[str]:
        """What the operator should know of the command's work; known after ``commit``."""

    def changed_since(self, moment: float) -> bool:
        """Whether a file in it was changed after ``moment`` (Unix time). Called in a thread, seldom."""

    def changed(self, moment: float) -> bool:
        """Whether the command has changed a file, since ``moment`` (Unix time): what --require-changes asks.

        Called in a thread, after ``commit``. What differed before the command began is no change.
        """

    async def commit(self) -> str | None:
        """Keeps what the command has left: commits it where there is a repository.

        Called when all processes of the command are dead, however it ended.

        Returns:
            The commit on which the work now is; None: no repository, or nothing was changed since the attempt began.

        Raises:
            WorkspaceFailed: a hook of the repository refused, or git failed. Nothing is lost.
        """

    async def close(self, *, done: bool) -> str:
        """Ends the workspace: hooks, then removal where nothing can be lost; otherwise it is kept.

        Never raises. Called once, after ``commit``, with all processes dead; also when the claim was lost.

        Args:
            done: the item was completed.

        Returns:
            What became of it, as a phrase for the log and the note: ``removed``, ``kept: 2 files not committed``.
        """


@dataclass(frozen=True, slots=True)
class Program:
    """What is at a path at which a program is expected."""

    kind: Literal["program", "not executable", "directory", "missing"]
    head: bytes = b""
    """Its first bytes."""
    why: str = ""
    """Why there is none, if it is not just missing."""


class HookCommands(Protocol):
    """Shell commands of the operator; empty: none."""

    @property
    def setup(self) -> str: ...
    @property
    def before(self) -> str: ...
    @property
    def after(self) -> str: ...
    @property
    def teardown(self) -> str: ...


class Workspaces(Protocol):
    @property
    def hooks(self) -> HookCommands:
        """What runs in them besides the command."""

    def program(self, path: str, *, made: bool) -> Program | None:
        """What a workspace has at a path after ``start``; None: something that runs there may make it (``made``)."""

    async def start(self) -> Sequence[str]:
        """Checks what can be before the first item is claimed; returns what the operator should know, in sentences.

        Raises:
            WorkspaceFailed: with ``broken``.
        """

    async def open(self, attempt: JobAttempt) -> Workspace:
        """Makes the workspace of an attempt, hooks included.

        Raises:
            WorkspaceFailed: it cannot be made; nothing is left of it, or what is left is safe.
        """


@dataclass(slots=True)
class Usage:
    """What an agent says that it has used; None: it did not say."""

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    turns: int | None = None
    model: str | None = None


@dataclass(slots=True)
class Reading:
    """What an agent's output says about its run, so far."""

    finished: bool = False
    """It has written its final event; None comes after it but noise."""
    success: bool | None = None
    """Its own word in the final event; None: it has none (so far), or its kind of output never has."""
    trouble: Trouble | None = None
    error: str = ""
    """What went wrong, in its words, on one line of at most 500 characters."""
    retry_after_seconds: float | None = None
    denials: tuple[str, ...] = ()
    """What it wanted to do and was not permitted to, a phrase each."""
    text: str = ""
    """Its final answer."""
    session: str | None = None
    usage: Usage = field(default_factory=Usage)
    events: int = 0
    """How many events it has written; output that is no event counts too."""
    shown: str = ""
    """The last event in a few words for a person: a tool's name, the beginning of a message; empty: nothing to show."""


class Reader(Protocol):
    """Reads the output of one run of an agent, line by line; never raises, whatever comes."""

    def line(self, stream: Stream, line: bytes) -> None:
        """Takes a line without its end; one that is longer than 10 MB comes cut off. Secrets are masked already."""

    def reading(self) -> Reading:
        """What it has read, at any time; cheap."""
