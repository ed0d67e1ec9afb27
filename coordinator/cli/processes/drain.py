"""``fleet drain``: tells processes to take no new work, and waits until their work in progress is done."""

from __future__ import annotations

import asyncio
import socket
from typing import Annotated

import redis.exceptions
from cyclopts import Parameter

from coordinator.cli.acting import Reason, operator
from coordinator.cli.checks import check_range
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS
from coordinator.cli.terminal import say
from coordinator.errors import ToolFailure
from coordinator.operations.drains import drain_processes
from coordinator.operations.in_progress import until_done, until_idle
from coordinator.processes.stores import open_store, running_url
from coordinator.settings import LoadedSettings, Settings
from coordinator.store import keys
from coordinator.store.fleet.drains import FLEET_SCOPE, ending, host_scope, process_scope


@with_settings(only=STORE_SETTINGS)
def drain(
    loaded: LoadedSettings,
    *,
    host: Annotated[str | None, Parameter(help="Only the processes of this host.")] = None,
    process: Annotated[
        str | None, Parameter(help="Only this process of the host (of this one by default), such as fe-0.")
    ] = None,
    wait: Annotated[float, Parameter(help="Seconds to wait for work in progress to end. [0 to 86400]")] = 300.0,
    end: Annotated[bool, Parameter(help="Take new work again.")] = False,
    reason: Reason = None,
) -> int:
    check_range("--wait", wait, 0, 86_400)
    try:
        scope = FLEET_SCOPE
        if process is not None:
            scope = process_scope(host or socket.gethostname(), process)
        elif host is not None:
            scope = host_scope(host)
    except ToolFailure as failure:
        raise CommandFailed(f"--{failure.message}", Exit.USAGE) from None
    url = running_url(loaded.settings)
    try:
        return asyncio.run(drain_scope(loaded.settings, url, scope, wait, end, reason))
    except KeyboardInterrupt:
        remark = f"if {scope} was asked to take no new work, that holds until `{ending(scope)}`"
        raise CommandFailed(f"interrupted; {remark}") from None


async def drain_scope(
    settings: Settings, url: str, scope: str, wait: float, end: bool, reason: str | None = None
) -> int:
    """Begins a drain and waits for the work in progress, or ends a drain; returns the exit code."""
    store = await open_store(url, settings.redis_timeout_ms)
    try:
        by = operator(store, settings, reason)
        result = await drain_processes(by, scope, end=end)
        before = f"; {result.said}" if result.said else ""
        if end:
            left = result.facts["drained"]
            say(f"{scope} takes new work again{before}" + (f"; still drained: {', '.join(left)}" if left else ""))
            return Exit.OK
        say(f"{scope} takes no new work from now on{before}; `{ending(scope)}` ends that")
        if scope == FLEET_SCOPE:
            return Exit.OK if await until_done(store, wait, say) else Exit.FAILED
    except ToolFailure as failure:
        if failure.code == "VALIDATION_ERROR":
            raise CommandFailed(f"--{failure.message}", Exit.USAGE) from None
        raise CommandFailed(failure.message, Exit.STORE_UNREACHABLE) from None
    except (redis.exceptions.RedisError, TimeoutError) as error:
        raise _unseen("the work in progress", error) from None
    finally:
        await store.close()
    # Only steps belong to a process: claims belong to agents, not to the process that placed them.
    queue_url = settings.steps.queue_url or url
    queue = await open_store(queue_url, settings.redis_timeout_ms, setting="steps.queue_url")
    try:
        return Exit.OK if await until_idle(queue.client_of(keys.QUEUE), scope, wait, say) else Exit.FAILED
    except (redis.exceptions.RedisError, TimeoutError) as error:
        raise _unseen("the workers", error) from None
    finally:
        await queue.close()


def _unseen(what: str, error: Exception) -> CommandFailed:
    return CommandFailed(f"cannot read {what}: {str(error) or 'no answer'}", Exit.STORE_UNREACHABLE)
