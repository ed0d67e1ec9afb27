"""``fleet stdio``: MCP on stdin and stdout for one local agent."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.terminal import absent
from coordinator.metrics import logs, tracing
from coordinator.processes.stdio import StdioSession
from coordinator.processes.supervision.roles import start_tracing
from coordinator.settings import AGENT_VARIABLE, TOKEN_VARIABLE, LoadedSettings
from coordinator.settings.contradictions import toolset_problems
from coordinator.store.keys import DEFAULT_PROJECT, PROJECT, PROJECT_RULE
from coordinator.transport.stdio.server import claim_standard_streams

_FOR_THE_NETWORK = (
    "host",
    "port",
    "insecure_no_auth",
    "admin_port",
    "admin_host",
    "worker_port",
    "frontends",
    "workers",
    "drain_seconds",
    "toolsets",
    "allowed_hosts",
    "allowed_origins",
    "max_body_bytes",
    "max_header_bytes",
    "max_json_depth",
)


@with_settings(without=_FOR_THE_NETWORK, starts_store=True)
def stdio(
    loaded: LoadedSettings,
    *,
    toolset: Annotated[
        tuple[str, ...],
        Parameter(
            help="Toolset to serve; given more than once, a combination. Default: the setting toolsets.", negative=""
        ),
    ] = (),
    project: Annotated[str, Parameter(help="Partition that the calls work on.")] = DEFAULT_PROJECT,
    agent: Annotated[
        str,
        Parameter(
            help="Whom the toolset worker takes the client for, unless a token says so. Default: FLEET_AGENT, else a "
            "name of this session's own."
        ),
    ] = "",
) -> int:
    # Removed from the environment, so that child processes do not inherit it.
    token = os.environ.pop(TOKEN_VARIABLE, None)
    try:
        if absent & {"stdin", "stdout"}:
            raise OSError(errno.EBADF, "closed")
        streams = claim_standard_streams()
    except OSError:
        raise CommandFailed("stdin and stdout have to be open: they carry the protocol", Exit.USAGE) from None
    settings = loaded.settings
    logs.configure(settings.log_level, settings.log_format, context={"slot": f"stdio-{os.getpid()}"})
    names = toolset or settings.toolsets
    _check(names, project)
    start_tracing(settings, f"stdio-{os.getpid()}")
    try:
        with asyncio.Runner() as runner:
            named = agent or os.environ.get(AGENT_VARIABLE) or f"{socket.gethostname()}-{os.getpid()}"
            read = runner.run(StdioSession(settings, names, project, streams, token, named).run())
    finally:
        tracing.stop()
    if not read:
        # A thread may still be waiting for the client's next line, and that read cannot be cancelled.
        os._exit(Exit.OK)
    return Exit.OK


def _check(names: tuple[str, ...], project: str) -> None:
    """Rejects invalid arguments before a store is looked up or started."""
    for sentence in toolset_problems(names):
        raise CommandFailed(f"toolsets: {sentence}", Exit.USAGE)
    if not PROJECT.fullmatch(project):
        raise CommandFailed(f"project: must be {PROJECT_RULE}", Exit.USAGE)
