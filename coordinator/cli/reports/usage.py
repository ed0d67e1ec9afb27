"""``fleet usage``: what agents have used, by item, agent, model or day."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from cyclopts import Parameter

from coordinator.cli.checks import check_range
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, unwritten, with_store
from coordinator.cli.terminal import aligned, print_as
from coordinator.settings import LoadedSettings
from coordinator.store import Store
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.toolsets.items import UsageReport, UsageRow, UsageSum, read_usage
from coordinator.units import clock, money
from coordinator.wording import printable

_UNNAMED = {"agent": "(no agent)", "model": "(no model)"}


@with_settings(only=STORE_SETTINGS)
def usage(
    loaded: LoadedSettings,
    *,
    by: Annotated[Literal["item", "agent", "model", "day"], Parameter(help="What to sum by.")] = "item",
    limit: Annotated[int, Parameter(help="How many lines. [1 to 1000]")] = 50,
    json: Annotated[bool, Parameter(help="Print as JSON.")] = False,
    project: Annotated[str, Parameter(help="The project.")] = DEFAULT_PROJECT,
) -> None:
    check_range("--limit", limit, 1, 1000)

    async def read(store: Store) -> UsageReport:
        report = await read_usage(store, project, by, limit)
        if not report.rows and (why := await unwritten(store, project)):
            raise CommandFailed(why, Exit.USAGE)
        return report

    usage_report = with_store(loaded, read)
    print_as(usage_report, _lines(usage_report, project), json)


def _lines(report: UsageReport, project: str) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [("cost", "tokens", "in", "cached", "out", "time", report.by)]
    rows += [(*_cells(row.sum), _name(row, report.by)) for row in report.rows]
    rows.append((*_cells(report.total), f"project {project}"))
    yield from aligned(rows, right=range(len(rows[0]) - 1))
    if len(report.rows) < report.count:
        yield f"first {len(report.rows)} of {report.count}"


def _cells(usage: UsageSum) -> tuple[str, ...]:
    return (
        money(usage.cost_micro_usd),
        f"{usage.tokens:,}",
        f"{usage.input_tokens:,}",
        f"{usage.cached_tokens:,}",
        f"{usage.output_tokens:,}",
        clock(usage.wall_ms),
    )


def _name(row: UsageRow, by: str) -> str:
    named = printable(row.name) if row.name else _UNNAMED.get(by, "")
    title = f"  {printable(row.title)}" if isinstance(row.title, str) else ""
    return f"{named}{title}{'  (budget spent)' if row.budget_spent is True else ''}"
