"""What commands of operators share: who acts, why, and on which store (``coordinator.operations``)."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.refusals import as_typed
from coordinator.cli.stores import with_store
from coordinator.cli.terminal import user
from coordinator.errors import ToolFailure
from coordinator.operations import Act, ActResult, Operator, given_reason, record
from coordinator.projects.errors import BadFile, NotPossible, ProjectProblem
from coordinator.settings import LoadedSettings, Settings
from coordinator.store import Store
from coordinator.toolsets.actor import ActorEcho, Trusted, Verification

R = TypeVar("R")

Reason = Annotated[str | None, Parameter(help="Why: kept in the log of what operators do (`fleet audit-log tail`).")]


def user_at_host() -> str:
    """Who acts at this terminal, for the record."""
    return f"{user() or f'uid-{os.getuid()}'}@{socket.gethostname()}"


def operator(store: Store, settings: Settings, reason: str | None) -> Operator:
    """The operator at this terminal, in one command. Raises CommandFailed: the reason is blank or too long."""
    try:
        why = given_reason(reason)
    except ToolFailure as failure:
        raise CommandFailed(f"--{failure.message}", Exit.USAGE) from None
    echo = ActorEcho(user_at_host(), "user")
    actor = Trusted(echo.id, echo, Verification("absent", "noop", None))
    return Operator(store, settings, actor, "cli", why, uuid.uuid4().hex)


def acting(loaded: LoadedSettings, reason: str | None, act: Callable[[Operator], Awaitable[R]]) -> R:
    """Does something on the store of a running fleet, as the operator at this terminal."""

    async def do(store: Store) -> R:
        try:
            return await act(operator(store, loaded.settings, reason))
        except ToolFailure as failure:
            raise ToolFailure(failure.code, as_typed(failure.message)) from None

    return with_store(loaded, do)


async def recorded(by: Operator, act: Act, do: Callable[[], Awaitable[str]]) -> str:
    """Does what only commands do, and keeps it in the log, with the sentence that it returns or fails with.

    Raises:
        ProjectProblem, CommandFailed: it was not done.
        ToolFailure: as ``do``, and as ``operations.record`` says.
    """
    problem: ProjectProblem | CommandFailed | None = None

    async def outcome() -> ActResult:
        nonlocal problem
        try:
            return ActResult("allowed", await do())
        except (ProjectProblem, CommandFailed) as error:
            problem = error
            code = "the file is wrong" if isinstance(error, BadFile) else None
            refused = error.code is Exit.USAGE if isinstance(error, CommandFailed) else isinstance(error, NotPossible)
            return ActResult("refused" if refused else "failed", str(error), code=code)

    result = await record(by, act, outcome)
    if problem is not None:
        raise problem
    return result.said
