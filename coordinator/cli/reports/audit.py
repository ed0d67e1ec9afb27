"""``fleet audit``: recounts a project and reports inconsistencies."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, unwritten, with_store
from coordinator.cli.terminal import print_as
from coordinator.errors import ToolFailure
from coordinator.settings import LoadedSettings
from coordinator.store import Store
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.toolsets.items.audit import AuditReport
from coordinator.toolsets.items.audit import audit as recount
from coordinator.wording import counted


@with_settings(only=STORE_SETTINGS)
def audit(
    loaded: LoadedSettings,
    *,
    project: Annotated[str, Parameter(help="The project to recount.")] = DEFAULT_PROJECT,
    format: Annotated[Literal["text", "json"], Parameter(help="How to print the report.")] = "text",
) -> int:
    report = with_store(loaded, lambda store: _audited(store, project))
    print_as(report, _lines(report, project), format == "json")
    return Exit.FAILED if report.differences else Exit.OK


async def _audited(store: Store, project: str) -> AuditReport:
    try:
        report = await recount(store, project)
    except ToolFailure as failure:
        if failure.code != "store_unavailable" or not store.sharded:
            raise
        number = store.shard_of(project)
        where = f"shard {number}" if number >= 0 else "a slot that no node has"
        raise CommandFailed(
            f"project {project}, on {where}, was not audited: {failure.message}", Exit.STORE_UNREACHABLE
        ) from None
    if not report.items and not report.differences and (why := await unwritten(store, project)):
        raise CommandFailed(why, Exit.USAGE)
    return report


def _lines(report: AuditReport, project: str) -> list[str]:
    edges = counted(report.edges, "dependency", "dependencies")
    seen = f"{counted(report.items, 'item')}, {edges}, {counted(report.claims, 'claim')}"
    lines = [*(f"{difference.key}: {difference.problem}" for difference in report.differences), *report.unjudged]
    verdict = counted(len(report.differences), "difference") if report.differences else "everything agrees"
    return [*lines, f"project {project}: {seen}; {verdict}"]
