"""``fleet audit``: recounts a project and reports whatever does not agree."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import open_store, running_url
from coordinator.errors import ToolFailure
from coordinator.settings import LoadedSettings, Settings
from coordinator.toolsets.items.audit import Report
from coordinator.toolsets.items.audit import audit as recount

_NEEDED = ("redis_url", "redis_timeout_ms", "data_dir")


@with_settings(without=[name for name in Settings.__struct_fields__ if name not in _NEEDED])
def audit(
    loaded: LoadedSettings,
    *,
    project: Annotated[str, Parameter(help="The project to recount.")] = "default",
    format: Annotated[Literal["text", "json"], Parameter(help="How to print the report.")] = "text",
) -> int:
    """Prints the report; the exit code says whether everything agreed.

    Raises:
        CommandFailed: the store cannot be used, or the project's name is malformed.
    """
    url = running_url(loaded.settings, os.environ)
    report = asyncio.run(_recount(url, loaded.settings.redis_timeout_ms, project))
    if format == "json":
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        print("\n".join(_lines(report, project)))
    return Exit.FAILED if report.differences else Exit.OK


async def _recount(url: str, timeout_ms: int, project: str) -> Report:
    store = await open_store(url, timeout_ms)
    try:
        return await recount(store, project)
    except ToolFailure as failure:
        code = Exit.USAGE if failure.code == "VALIDATION_ERROR" else Exit.STORE_UNREACHABLE
        raise CommandFailed(failure.message, code) from None
    finally:
        await store.close()


def _lines(report: Report, project: str) -> list[str]:
    seen = f"{report.items} items, {report.edges} dependencies, {report.claims} claims"
    lines = [f"{difference.key}: {difference.problem}" for difference in report.differences]
    if not report.counters_judged:
        lines.append("the project changed meanwhile, so the counters of expired claims were not judged")
    if report.restless:
        lines.append(f"{report.restless} things changed at every look and were not judged")
    verdict = f"{len(report.differences)} differences" if report.differences else "everything agrees"
    return [*lines, f"project {project}: {seen}; {verdict}"]
