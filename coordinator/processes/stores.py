"""Finds and opens the store that a process or a command uses, and says why it cannot be used."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import msgspec
import structlog

from coordinator.processes.errors import Kind, ProcessProblem
from coordinator.processes.fleetfile import Fleet, in_use, read_fleet
from coordinator.settings import Settings
from coordinator.settings.paths import is_of_another_user
from coordinator.store import (
    AccessRefused,
    AddressError,
    Store,
    StoreError,
    StoreIdentity,
    StoreTooOld,
    StoreUnreachable,
)
from coordinator.store.checks import key_space, permissions
from coordinator.store.checks.identity import remembered
from coordinator.store.embedded.binary import ServerMissing
from coordinator.store.embedded.server import EmbeddedError, ServerFailed, find_running
from coordinator.store.errors import explained
from coordinator.store.link.address import parse
from coordinator.store.opening import TIMEOUT_SECONDS, open_patiently

_log = structlog.get_logger(__name__)

_ADVICE = "run this as that user, or give --redis-url"


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


def running_url(settings: Settings) -> str:
    """The given URL, or that of the store of a fleet that runs on the data directory.

    Raises:
        ProcessProblem: there is neither, or the fleet's store cannot be used from here.
    """
    url = given_url(settings) or find_running(settings.data_dir)
    directory = Path(settings.data_dir)
    if url is None and in_use(directory):
        url = _url_of(read_fleet(directory), settings)
    if url is None and (is_of_another_user(directory) or _is_closed(directory)):
        raise ProcessProblem(f"the data directory {directory} belongs to another user: {_ADVICE}", "data_dir")
    if url is None:
        raise ProcessProblem(
            f"no Redis to work with: give --redis-url (or FLEET_REDIS_URL), or start `fleet up` on the data "
            f"directory {settings.data_dir}",
            "store_unreachable",
        )
    return url


def _is_closed(directory: Path) -> bool:
    """Whether a directory is there, and this user may not look into it."""
    return os.path.exists(directory) and not os.access(directory, os.X_OK, effective_ids=True)


def _url_of(fleet: Fleet | None, settings: Settings) -> str:
    """The URL of the Redis that a fleet was given.

    Raises:
        ProcessProblem: it has none, and its embedded store does not answer; or the password is needed.
    """
    at = f"a fleet runs on the data directory {settings.data_dir}"
    if fleet is None:
        raise ProcessProblem(f"{at}, but is still starting: try again in a moment", "store_unreachable")
    at += f" (process {fleet.pid})"
    if fleet.store == "embedded":
        raise ProcessProblem(
            f"{at}, but its embedded store (process {fleet.store_pid}) does not answer: it is starting, is being "
            "replaced, or hangs; the fleet's log says more",
            "store_unreachable",
        )
    bare = fleet.store.replace(":***@", "@").replace("//@", "//")
    if "***" not in bare and (bare == fleet.store or os.environ.get("FLEET_REDIS_PASSWORD")):
        return given_url(msgspec.structs.replace(settings, redis_url=bare))
    raise ProcessProblem(
        f"{at} with the Redis {fleet.store}: put its password into FLEET_REDIS_PASSWORD, or give --redis-url",
        "store_unreachable",
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
        ProcessProblem: it cannot be used.
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
        ProcessProblem: it cannot be used, is not the one of before, its keys have another layout, or its user lacks
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


def store_failed(error: StoreError) -> ProcessProblem:
    kind: Kind = "failed"
    if isinstance(error, AddressError):
        kind = "usage"
    elif isinstance(error, StoreTooOld):
        kind = "store_too_old"
    elif isinstance(error, StoreUnreachable):
        kind = "store_unreachable"
    elif isinstance(error, (ServerMissing, ServerFailed)):
        kind = "no_embedded_store"
    elif isinstance(error, EmbeddedError):
        kind = "data_dir"
    return ProcessProblem(explained(error), kind)
