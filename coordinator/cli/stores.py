"""Finds and opens the store that a command uses, and turns failures into messages and exit codes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.fleetfile import Fleet, in_use, read_fleet
from coordinator.errors import ToolFailure
from coordinator.projects.errors import NotPossible, ProjectProblem
from coordinator.settings import LoadedSettings, Settings
from coordinator.settings.paths import is_of_another_user
from coordinator.store import (
    AccessRefused,
    AddressError,
    Store,
    StoreError,
    StoreIdentity,
    StoreTooOld,
    StoreUnreachable,
    key_space,
    permissions,
)
from coordinator.store.address import parse
from coordinator.store.embedded import EmbeddedError, ServerFailed, find_running
from coordinator.store.errors import explained
from coordinator.store.identity import remembered
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.store.opening import TIMEOUT_SECONDS, open_patiently
from coordinator.store.project_list import noted, written
from coordinator.store.server_binary import ServerMissing

R = TypeVar("R")
_log = structlog.get_logger(__name__)

PATIENCE_MS = 20_000
"""The least timeout of calls for work of an operator on a whole project."""
_NAMED = 20
"""How many projects a message names."""
_CODES = {"VALIDATION_ERROR": Exit.USAGE, "RESOURCE_NOT_FOUND": Exit.FAILED}
"""The exit codes of failures; all others mean that the store cannot be used."""
STORE_SETTINGS = ("redis_url", "redis_timeout_ms", "data_dir")
"""The settings of commands that need only the store."""


def patient(settings: Settings) -> Settings:
    """The settings with that timeout: nobody else waits for such work, so the store may take its time."""
    return msgspec.structs.replace(settings, redis_timeout_ms=max(settings.redis_timeout_ms, PATIENCE_MS))


def given_url(settings: Settings) -> str:
    """``redis_url`` with the password from FLEET_REDIS_PASSWORD in it; empty if no URL is given."""
    password = os.environ.get("FLEET_REDIS_PASSWORD")
    if not settings.redis_url or not password:
        return settings.redis_url
    try:
        address = parse(settings.redis_url)
    except AddressError:  # reported when the store is opened
        return settings.redis_url
    return settings.redis_url if address.password else replace(address, password=password).url()


_ADVICE = "run this as that user, or give --redis-url"


def running_url(settings: Settings) -> str:
    """The given URL, or that of the store of a fleet that runs on the data directory.

    Raises:
        CommandFailed: there is neither, or the fleet's store cannot be used from here.
    """
    url = given_url(settings) or find_running(settings.data_dir)
    directory = Path(settings.data_dir)
    if url is None and in_use(directory):
        url = _url_of(read_fleet(directory), settings)
    if url is None and (is_of_another_user(directory) or _is_closed(directory)):
        raise CommandFailed(f"the data directory {directory} belongs to another user: {_ADVICE}", Exit.DATA_DIR)
    if url is None:
        raise CommandFailed(
            f"no Redis to work with: give --redis-url (or FLEET_REDIS_URL), or start `fleet up` on the data "
            f"directory {settings.data_dir}",
            Exit.STORE_UNREACHABLE,
        )
    return url


def _is_closed(directory: Path) -> bool:
    """Whether a directory is there, and this user may not look into it."""
    return os.path.exists(directory) and not os.access(directory, os.X_OK, effective_ids=True)


def _url_of(fleet: Fleet | None, settings: Settings) -> str:
    """The URL of the Redis that a fleet was given.

    Raises:
        CommandFailed: it has none, and its embedded store does not answer; or the password is needed.
    """
    at = f"a fleet runs on the data directory {settings.data_dir}"
    if fleet is None:
        raise CommandFailed(f"{at}, but is still starting: try again in a moment", Exit.STORE_UNREACHABLE)
    at += f" (process {fleet.pid})"
    if fleet.store == "embedded":
        raise CommandFailed(
            f"{at}, but its embedded store (process {fleet.store_pid}) does not answer: it is starting, is being "
            "replaced, or hangs; the fleet's log says more",
            Exit.STORE_UNREACHABLE,
        )
    bare = fleet.store.replace(":***@", "@").replace("//@", "//")
    if "***" not in bare and (bare == fleet.store or os.environ.get("FLEET_REDIS_PASSWORD")):
        return given_url(msgspec.structs.replace(settings, redis_url=bare))
    raise CommandFailed(
        f"{at} with the Redis {fleet.store}: put its password into FLEET_REDIS_PASSWORD, or give --redis-url",
        Exit.STORE_UNREACHABLE,
    )


async def open_store(
    url: str,
    timeout_ms: int,
    timeout: float = TIMEOUT_SECONDS,
    identity: StoreIdentity | None = None,
    partly: bool = False,
    setting: str = AccessRefused.setting,
) -> Store:
    """As ``open_patiently``.

    Raises:
        CommandFailed: with the reason and its exit code.
    """
    try:
        return await open_patiently(url, timeout_ms, timeout, identity, partly, setting)
    except StoreError as error:
        raise store_failed(error) from None


async def open_for_serving(settings: Settings, url: str, warns: bool = True) -> Store:
    """Opens the store and checks that it can be served from.

    Args:
        warns: if the timeout does not fit the failover of the servers.

    Raises:
        CommandFailed: it cannot be used, is not the one of before, its keys have another layout, or its user lacks
            permissions.
    """
    try:
        identity = remembered(settings, url)
    except AddressError as error:
        raise store_failed(error) from None
    store = await open_store(url, settings.redis_timeout_ms, identity=identity)
    try:
        await key_space.settle(store)
        await permissions.require(store)
        if warns and (problem := await store.failover_problem()):
            _log.warning("the timeout does not fit the failover", problem=problem)
    except StoreError as error:
        await store.close()
        raise store_failed(error) from None
    return store


def with_store(loaded: LoadedSettings, act: Callable[[Store], Awaitable[R]]) -> R:
    """Runs ``act`` with the store that a running fleet uses, and returns its result.

    Raises:
        CommandFailed: the store, or of a cluster the shard that ``act`` needs, cannot be used, or an argument is
            malformed.
    """
    settings = loaded.settings
    url = running_url(settings)

    async def run() -> R:
        store = await open_store(url, settings.redis_timeout_ms, partly=True)
        try:
            return await act(store)
        except (ToolFailure, ProjectProblem) as failure:
            raise work_failed(failure) from None
        finally:
            await store.close()

    return asyncio.run(run())


def work_failed(failure: ToolFailure | ProjectProblem) -> CommandFailed:
    """The failure of a command whose store refused a call, or whose work on a whole project ended."""
    if isinstance(failure, ToolFailure):
        return CommandFailed(failure.message, _CODES.get(failure.code, Exit.STORE_UNREACHABLE))
    return CommandFailed(str(failure), Exit.USAGE if isinstance(failure, NotPossible) else Exit.FAILED)


def store_failed(error: StoreError) -> CommandFailed:
    """The failure of a command that could not use its store."""
    code = Exit.FAILED
    if isinstance(error, AddressError):
        code = Exit.USAGE
    elif isinstance(error, StoreTooOld):
        code = Exit.STORE_TOO_OLD
    elif isinstance(error, StoreUnreachable):
        code = Exit.STORE_UNREACHABLE
    elif isinstance(error, (ServerMissing, ServerFailed)):
        code = Exit.NO_EMBEDDED_STORE
    elif isinstance(error, EmbeddedError):
        code = Exit.DATA_DIR
    return CommandFailed(explained(error), code)


async def unwritten(store: Store, project: str) -> str:
    """The message for an unwritten project, with existing names; empty: it has data, or it is the default.

    Raises:
        ToolFailure: the store cannot be read.
    """
    if project == DEFAULT_PROJECT or await written(store, project):
        return ""
    names = await noted(store)
    close = get_close_matches(project, names, n=1)
    known = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(names)[:_NAMED]) or 'none yet'}"
    return f"there is no project {project}: nobody has written to it; {known}"
