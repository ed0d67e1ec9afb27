"""The commands of ``fleet flows``."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from coordinator.cli.acting import Reason, acting
from coordinator.cli.checks import check_range
from coordinator.cli.command_metrics import counted_by_fleet
from coordinator.cli.connection import AT_STORE, ByUrl
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, unwritten, with_store
from coordinator.cli.terminal import print_json
from coordinator.client import Fleet
from coordinator.operations import ActResult, Operator
from coordinator.operations.flows import cancel_flow, had_ended, known, pause_flow, retry_flow
from coordinator.settings import LoadedSettings
from coordinator.store import Store
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.toolsets.flows import FlowList, FlowRecord, FlowRow, FlowStore, as_given, unpack
from coordinator.wording import counted, printable

_WIDE = 2_000
_PAGE = 100
"""The most workflows in one answer of the tool."""
_SHARED = ("id", "name", "status", "completed_at", "cancelled_at")
"""What rows of the tool and of the store call the same."""

Project = Annotated[str, Parameter(help="The project that the workflow belongs to.")]
Id = Annotated[int, Parameter(help="The workflow's id, as `fleet flows list` shows it.")]


@with_settings(only=STORE_SETTINGS)
def show_list(
    loaded: LoadedSettings,
    *,
    project: Annotated[str, Parameter(help="Whose workflows.")] = DEFAULT_PROJECT,
    status: Annotated[
        Literal["running", "paused", "completed", "failed", "cancelled"] | None,
        Parameter(help="Only those with this status."),
    ] = None,
    name: Annotated[str, Parameter(help="Only those whose name contains this, whatever the case.")] = "",
    limit: Annotated[int, Parameter(help="At most so many, newest first. [1 to 10000]")] = 20,
    format: Annotated[
        Literal["auto", "table", "plain", "json"],
        Parameter(help="Shape of the output; 'auto' is a table on a terminal, else plain lines."),
    ] = "auto",
    by_url: ByUrl = AT_STORE,
) -> None:
    check_range("--limit", limit, 1, 10_000)

    async def found(store: Store) -> tuple[FlowList, str]:
        listed = await FlowStore(store, loaded.settings).list(project, limit=limit + 1, status=status, name=name)
        return listed, "" if listed.rows else await unwritten(store, project)

    if (at := by_url.connection(loaded, project)) is not None:
        listed, hint = at.run(lambda fleet: _told(fleet, limit + 1, status, name)), ""
    else:
        listed, hint = with_store(loaded, found)
    rows = listed.rows[:limit]
    if hint:
        print(f"fleet: {hint}", file=sys.stderr)
    if format == "json":
        print_json(rows)
    elif format == "table" or (format == "auto" and sys.stdout.isatty()):
        _print_table(rows)
    else:
        for row in rows:
            print(f"{row.id}  {row.status:9}  {printable(row.creator)}  {printable(row.name)}")
    if len(listed.rows) > limit:
        print(f"fleet: more than {limit} workflow{'s' * (limit > 1)}; --limit shows more", file=sys.stderr)
    elif listed.before:
        print(f"workflows older than {listed.before} were not searched", file=sys.stderr)


@with_settings(only=STORE_SETTINGS)
def show(
    loaded: LoadedSettings,
    id: Id,
    *,
    project: Project = DEFAULT_PROJECT,
    format: Annotated[
        Literal["tree", "mermaid", "json"],
        Parameter(help="'tree' draws the graph, 'mermaid' prints it as a Mermaid flowchart."),
    ] = "tree",
) -> None:
    async def found(store: Store) -> FlowRecord:
        return known(await FlowStore(store, loaded.settings).get(project, id), "workflow", id, project)

    record = with_store(loaded, found)
    flow = unpack(record.spec).flow
    if format == "json":
        print_json(_described(record))
        return
    # Imported here: only drawings need rich.
    from rich.console import Console

    from coordinator.cli.flows.diagram import mermaid, tree

    if format == "mermaid":
        print(mermaid(record, flow))
    else:
        # Piped output must not be wrapped.
        console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=_WIDE)
        with console.capture() as capture:
            console.print(tree(record, flow))
        print("\n".join(line.rstrip() for line in capture.get().splitlines()))


async def _told(fleet: Fleet, most: int, status: str | None, name: str) -> FlowList:
    """The newest workflows, from the tool: at most so many, those that the caller may see."""
    rows: list[FlowRow] = []
    page = _PAGE
    while len(rows) < most and page == _PAGE:
        query = {"limit": _PAGE, "status": status, "name": name}
        answer = await fleet.call("workflow_list", query | ({"before": rows[-1].id} if rows else {}))
        page = len(answer["result"])
        rows += [_row(row) for row in answer["result"]]
    return FlowList(rows[:most])


def _row(answer: dict[str, Any]) -> FlowRow:
    """A row of the tool; the id of a workflow is its time of creation."""
    same: dict[str, Any] = {name: answer.get(name) for name in _SHARED}
    parent = str(answer["parent"]) if "parent" in answer else None
    return FlowRow(**same, creator=answer["created_by"], created_at=answer["id"], parent=parent)


@with_settings(only=STORE_SETTINGS)
def cancel(
    loaded: LoadedSettings,
    id: Id,
    *,
    reason: Reason = None,
    project: Project = DEFAULT_PROJECT,
    by_url: ByUrl = AT_STORE,
) -> None:
    if (at := by_url.connection(loaded, project)) is not None:
        if reason is not None:
            raise CommandFailed("--reason: is kept in the store, and does not go with --url", Exit.USAGE)
        _check(id, at.run(lambda fleet: _cancelled(fleet, id)))
    else:
        with counted_by_fleet(loaded.settings):
            _act(loaded, id, reason, lambda by: cancel_flow(by, project, id))
    print(f"workflow {id} is cancelled")


async def _cancelled(fleet: Fleet, id: int) -> ActResult:
    """What came of a call of the tool."""
    answer = await fleet.call("workflow_cancel", {"id": id})
    if answer["cancelled"]:
        return ActResult("allowed")
    return ActResult("refused", had_ended(answer.get("status", "cancelled")))


@with_settings(only=STORE_SETTINGS)
def pause(loaded: LoadedSettings, id: Id, *, reason: Reason = None, project: Project = DEFAULT_PROJECT) -> None:
    _act(loaded, id, reason, lambda by: pause_flow(by, project, id))
    print(f"workflow {id} is paused: running steps continue, no other step starts")


@with_settings(only=STORE_SETTINGS)
def resume(loaded: LoadedSettings, id: Id, *, reason: Reason = None, project: Project = DEFAULT_PROJECT) -> None:
    _act(loaded, id, reason, lambda by: pause_flow(by, project, id, resume=True))
    print(f"workflow {id} is resumed")


@with_settings(only=STORE_SETTINGS)
def retry(loaded: LoadedSettings, id: Id, *, reason: Reason = None, project: Project = DEFAULT_PROJECT) -> None:
    facts = _act(loaded, id, reason, lambda by: retry_flow(by, project, id)).facts
    print(f"workflow {id} was {facts['status']} and runs again: {counted(facts['steps'], 'step')}")


def _act(
    loaded: LoadedSettings, id: int, reason: str | None, act: Callable[[Operator], Awaitable[ActResult]]
) -> ActResult:
    return _check(id, acting(loaded, reason, act))


def _check(id: int, result: ActResult) -> ActResult:
    """What came of an act. Raises CommandFailed: it was refused."""
    if not result.done:
        raise CommandFailed(f"workflow {id}: {result.said}")
    return result


def _described(record: FlowRecord) -> dict[str, Any]:
    """A workflow with its flow and input as stored, and its steps with their names."""
    spec = unpack(record.spec)
    steps = [{"name": spec.flow[step.key].name, **msgspec.to_builtins(step)} for step in record.steps]
    flow = {key: as_given(step) for key, step in spec.flow.items()}
    return {**msgspec.to_builtins(record.row), "flow": flow, "input": spec.given, "steps": steps}


def _print_table(rows: list[FlowRow]) -> None:
    # Imported here: only tables on a terminal need rich.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from coordinator.cli.flows.diagram import status, time_of

    table = Table(
        "Id",
        "Name",
        "Status",
        "Created by",
        "Created (UTC)",
        "Ended (UTC)",
        box=None,
        pad_edge=False,
        header_style="bold",
    )
    for row in rows:
        ended = time_of(row.completed_at or row.cancelled_at)
        table.add_row(
            str(row.id),
            Text(printable(row.name)),
            status(row),
            Text(printable(row.creator)),
            time_of(row.created_at),
            ended,
        )
    Console().print(table)
