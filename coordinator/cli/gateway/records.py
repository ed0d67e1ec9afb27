"""``fleet gateway audit`` and ``fleet gateway approvals``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from cyclopts import Parameter

from coordinator.cli.acting import Reason, acting
from coordinator.cli.checks import check_range
from coordinator.cli.command_metrics import counted_by_fleet
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, unwritten, with_store
from coordinator.cli.terminal import print_json
from coordinator.operations.approvals import answer_approval
from coordinator.operations.flows import known
from coordinator.settings import LoadedSettings
from coordinator.store import Store
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.toolsets.gateway import (
    HUMAN,
    AuditEntry,
    AuditStore,
    Decisions,
    Listener,
    PendingApproval,
    Principal,
    Rejected,
)
from coordinator.toolsets.timestamp import iso
from coordinator.wording import printable

R = TypeVar("R")

_FOLLOW_SECONDS = 0.5
_MAX_PAGES = 200

Project = Annotated[str, Parameter(help="The project.")]
Id = Annotated[str, Parameter(help="The approval, as `fleet gateway approvals list` shows it.")]
Format = Annotated[Literal["text", "json"], Parameter(help="Shape of the output; json is one object a line.")]


@with_settings(only=STORE_SETTINGS)
def audit(
    loaded: LoadedSettings,
    *,
    project: Project = DEFAULT_PROJECT,
    workflow: Annotated[str, Parameter(help="Only what concerns this instance.")] = "",
    correlation: Annotated[str, Parameter(help="Only what belongs to this start or submit.")] = "",
    type: Annotated[str, Parameter(help="Only events whose type begins with this.")] = "",
    count: Annotated[int, Parameter(help="At most so many, the last ones. [1 to 100000]")] = 100,
    follow: Annotated[bool, Parameter(help="Go on with what happens, until interrupted.")] = False,
    format: Format = "text",
) -> None:
    check_range("--count", count, 1, 100_000)

    def wanted(entry: AuditEntry) -> bool:
        return (
            (not workflow or entry.workflow_id == workflow)
            and (not correlation or entry.correlation_id == correlation)
            and entry.type.startswith(type)
        )

    async def show(store: Store) -> None:
        records = AuditStore(store, loaded.settings)
        filtered = bool(workflow or correlation or type)
        last = await _last(records, project, count, filtered)
        if not last:
            await _hint(store, project)
        for entry in [entry for entry in last if wanted(entry)][-count:]:
            _print(entry, format)
        after = last[-1].position if last else ""
        while follow:
            entries = await records.read(project, after)
            for entry in filter(wanted, entries):
                _print(entry, format)
            sys.stdout.flush()
            if entries:
                after = entries[-1].position
            else:
                await asyncio.sleep(_FOLLOW_SECONDS)

    _with_store(loaded, show)


@with_settings(only=STORE_SETTINGS)
def approvals(
    loaded: LoadedSettings,
    *,
    project: Project = DEFAULT_PROJECT,
    queue: Annotated[str, Parameter(help="Only those of this queue.")] = "",
    format: Format = "text",
) -> None:
    async def still_open(store: Store) -> list[PendingApproval]:
        approvals = await AuditStore(store, loaded.settings).open_approvals(project)
        if not approvals:
            await _hint(store, project)
        return approvals

    for row in _with_store(loaded, still_open):
        if queue and row.queue != queue:
            continue
        if format == "json":
            record = {**msgspec.structs.asdict(row), "asked_at": iso(row.asked_at)}
            print_json(record, indent=-1)
        else:
            asked_by = f"asked by {printable(row.requester)}" + (", who must not answer" if row.distinct else "")
            print(f"{row.id}  {iso(row.asked_at)}  {row.queue}  {row.definition} {row.workflow}  {asked_by}")


@with_settings(only=STORE_SETTINGS)
def show_approval(loaded: LoadedSettings, id: Id, *, project: Project = DEFAULT_PROJECT) -> None:
    people = Principal(roles=(HUMAN,))

    async def show(store: Store) -> None:
        decisions = Decisions.of(store, loaded.settings, Listener(store))
        listed, request = known(await decisions.approval(project, id, people), "approval", id, project)
        record: dict[str, Any] = {"id": id, **msgspec.structs.asdict(listed), "asked_at": iso(listed.asked_at)}
        record["answered_at"] = iso(listed.answered_at) if listed.answered_at else None
        if request is not None:
            record["possible"] = [answer.transition for answer in request.answers]
        print_json(record)

    _with_store(loaded, show)


@with_settings(only=STORE_SETTINGS)
def resolve(
    loaded: LoadedSettings,
    id: Id,
    transition: Annotated[str, Parameter(help="The answer: a transition that people may take.")],
    *,
    project: Project = DEFAULT_PROJECT,
    by: Annotated[str, Parameter(help="Who answers, for the record; default: the user at the terminal.")] = "",
    role: Annotated[tuple[str, ...], Parameter(help="A role beside 'human'; may be given more than once.")] = (),
    arguments: Annotated[str, Parameter(help="Arguments of the transition, as a JSON object.")] = "{}",
    reason: Reason = None,
) -> None:
    try:
        values = msgspec.json.decode(arguments, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise CommandFailed(f"--arguments must be a JSON object: {error}", Exit.USAGE) from None
    with counted_by_fleet(loaded.settings):
        result = acting(loaded, reason, lambda who: answer_approval(who, project, id, transition, values, by, role))
    if not result.done:
        raise CommandFailed(printable(result.said))
    facts = result.facts
    print(f"{facts['workflow']} is in state {facts['state']!r} now, version {facts['version']}")


async def _hint(store: Store, project: str) -> None:
    """Explains an empty list if nobody has written to the project."""
    if why := await unwritten(store, project):
        print(f"fleet: {why}", file=sys.stderr)


async def _last(records: AuditStore, project: str, count: int, filtered: bool) -> list[AuditEntry]:
    """The last entries; with a filter, all that are kept."""
    if not filtered:
        return await records.newest(project, count)
    entries: list[AuditEntry] = []
    position = ""
    for _ in range(_MAX_PAGES):
        page = await records.read(project, position, 5_000)
        if not page:
            break
        entries += page
        position = page[-1].position
    return entries


def _print(entry: AuditEntry, format: str) -> None:
    if format == "json":
        record = msgspec.to_builtins(entry)
        del record["position"]
        print_json(record, indent=-1)
        return
    payload = printable(msgspec.json.encode(entry.payload).decode())
    actor = printable(entry.actor) or "-"
    print(f"{entry.at}  {entry.type:24}  {entry.workflow_id or '-'}  {entry.correlation_id or '-'}  {actor}  {payload}")


def _with_store(loaded: LoadedSettings, act: Callable[[Store], Awaitable[R]]) -> R:
    """As ``with_store``; a refusal of the gateway fails the command."""

    async def reported(store: Store) -> R:
        try:
            return await act(store)
        except Rejected as rejected:
            raise CommandFailed(f"{rejected.code}: {rejected.message}") from None

    return with_store(loaded, reported)
