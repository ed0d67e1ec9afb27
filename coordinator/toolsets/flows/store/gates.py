"""Gates of flows, for operators: those that wait, and who may release them; those that were released, and by whom."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from coordinator.store import Script, Store, keys
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.rules.permissions import may_approve, may_read
from coordinator.toolsets.flows.rules.spec import Spec, unpack
from coordinator.toolsets.flows.store.flows import LIBRARY, FlowReads, FlowRow
from coordinator.toolsets.pages import stream_entry

MOST = 100
"""How many gates a page has at most."""
PAGES = 5
"""Of gates, that are read for a list of flows."""


class WaitingGate(NamedTuple):
    """A gate that waits for its release. Times are ms of the store's clock."""

    step: int
    """The id of the step, for ``workflow_step_ready``."""
    key: str
    name: str
    flow: int
    flow_name: str
    creator: str
    paused: bool
    """Whether the flow is paused: what follows the gate waits until it is resumed."""
    role: str
    """The role that may release it; empty: everybody who may see the flow."""
    since: int
    expires_at: int
    """0: never."""
    declined: list[str]
    """Those who were asked through their clients, and have not."""
    may_release: bool
    """Whether the caller has the role."""
    place: int
    """The step's place in the definition, from 1 on."""
    steps: int
    """How many steps the definition has."""


class GatePage(NamedTuple):
    now: int
    next: str
    """Where the next page begins; empty: this is the last one."""
    rows: list[WaitingGate]


class _WaitingRow(msgspec.Struct, array_like=True, frozen=True):
    """A ``WaitingGate`` as it is stored."""

    step: int
    key: str
    flow: int
    flow_name: str
    status: str
    creator: str
    roles: str
    """The roles that may release gates of the flow, as JSON; empty: none are named."""
    since: int
    expires_at: int
    declined: list[str]


_LIST = Script(LIBRARY, "list_gates", tuple[int, str, list[_WaitingRow]])


class ReleasedGate(NamedTuple):
    """A gate that was released, as long as it is kept: the last 1,000 of the project are."""

    step: int
    name: str
    """Its key if the flow is not kept any more."""
    flow: int
    flow_name: str
    creator: str
    by: str
    via: str
    """``client``: an agent's client was asked, and gave the answer; empty: by a call of its own."""
    at: int
    """In ms of the store's clock."""
    entry: str
    """The page after it begins there (``after``)."""


class ReleasedPage(NamedTuple):
    next: str
    """Where the next page begins; empty: this is the last one."""
    rows: list[ReleasedGate]


class _ReleasedRow(msgspec.Struct, array_like=True, frozen=True):
    """A ``ReleasedGate`` as it is stored."""

    step: int
    key: str
    flow: int
    flow_name: str
    creator: str
    roles: str
    """As in ``_WaitingRow``."""
    by: str
    via: str
    entry: str
    at: int


_RELEASED = Script(LIBRARY, "list_released", tuple[str, list[_ReleasedRow]])


async def released_gates(
    store: Store, project: str, caller: Caller | None, *, after: str = "", limit: int = 50
) -> ReleasedPage:
    """Released gates of flows that the caller may see, the last answer first. Arguments, pages and errors as those of
    ``waiting_gates``."""
    position, rows = await store.run(_RELEASED, project, stream_entry(after, "after"), max(1, min(limit, MOST)))
    seen = [row for row in rows if may_read(caller, row.creator, _roles(row.roles))]
    specs = await _specs(store, project, (row.flow for row in seen))
    gates = []
    for row in seen:
        spec = specs[row.flow]
        step = spec.flow.get(row.key) if spec is not None else None
        name = row.key if step is None else step.name
        gates.append(
            ReleasedGate(row.step, name, row.flow, row.flow_name, row.creator, row.by, row.via, row.at, row.entry)
        )
    return ReleasedPage(position, gates)


async def waiting_gates(
    store: Store, project: str, caller: Caller | None, *, after: str = "", limit: int = 50
) -> GatePage:
    """Gates of flows that the caller may see, the last one first. Two round trips.

    Args:
        caller: None: sees all, and may release all.
        after: ``GatePage.next`` of the page before.
        limit: at most so many, and ``MOST``. A page may be shorter although it is not the last one.

    Raises ToolFailure as ``Store.run`` says.
    """
    now, position, rows = await store.run(_LIST, project, after, max(1, min(limit, MOST)))
    seen = [row for row in rows if may_read(caller, row.creator, _roles(row.roles))]
    specs = await _specs(store, project, (row.flow for row in seen))
    gates = []
    for row in seen:
        spec = specs[row.flow]
        if spec is None or (step := spec.flow.get(row.key)) is None:
            continue  # the flow has just been deleted
        gates.append(
            WaitingGate(
                row.step,
                row.key,
                step.name,
                row.flow,
                row.flow_name,
                row.creator,
                row.status == "p",
                step.approver_role or "",
                row.since,
                row.expires_at,
                row.declined,
                may_approve(caller, step.approver_role),
                _place(spec, row.key),
                len(spec.flow),
            )
        )
    return GatePage(now, position, gates)


async def gates_of(
    store: Store, project: str, caller: Caller | None, flows: Iterable[FlowRow]
) -> dict[int, list[WaitingGate]]:
    """The gates that wait in some flows, by flow, the longest waiting first; flows without one are not there.

    Reads the gates of the project. If there are very many, flows that none of the last ones is in are read one by one.

    Raises ToolFailure as ``Store.run`` says.
    """
    wanted = {flow.id: flow for flow in flows if flow.status in ("running", "paused")}
    found: dict[int, list[WaitingGate]] = {}
    after = ""
    for _ in range(PAGES if wanted else 0):
        page = await waiting_gates(store, project, caller, after=after, limit=MOST)
        for gate in page.rows:
            if gate.flow in wanted:
                found.setdefault(gate.flow, []).insert(0, gate)
        after = page.next
        if not after:
            return found
    others = [flow for flow in wanted.values() if flow.id not in found]
    for flow, gates in zip(
        others, await asyncio.gather(*(_gates_in(store, project, caller, one) for one in others)), strict=True
    ):
        if gates:
            found[flow.id] = gates
    return found


async def _gates_in(store: Store, project: str, caller: Caller | None, flow: FlowRow) -> list[WaitingGate]:
    record = await FlowReads(store).outline(project, flow.id)
    if record is None:
        return []
    spec = unpack(record.spec)
    return [
        WaitingGate(
            step.id, step.key, spec.flow[step.key].name, flow.id, flow.name, flow.creator, flow.status == "paused",
            spec.flow[step.key].approver_role or "", step.started_at or step.ready_at or flow.created_at, 0, [],
            may_approve(caller, spec.flow[step.key].approver_role), _place(spec, step.key), len(spec.flow),
        )
        for step in record.steps
        if step.gate
    ]  # fmt: skip


async def flows_at_gates(
    store: Store, project: str, caller: Caller | None, *, after: str = "", limit: int = 50
) -> tuple[list[FlowRow], dict[int, list[WaitingGate]], str]:
    """Flows that wait for somebody, those whose gate has begun last first; their gates; and where the next page begins.

    Args, and errors: as ``waiting_gates``.
    """
    page = await waiting_gates(store, project, caller, after=after, limit=limit)
    found: dict[int, list[WaitingGate]] = {}
    for gate in page.rows:
        found.setdefault(gate.flow, []).insert(0, gate)
    created = await asyncio.gather(*(store.command("HGET", keys.run.key(project, str(flow)), "t") for flow in found))
    rows = [
        FlowRow(
            id=flow, name=gates[0].flow_name, status="paused" if gates[0].paused else "running",
            creator=gates[0].creator, created_at=int(at or flow),
        )
        for (flow, gates), at in zip(found.items(), created, strict=True)
    ]  # fmt: skip
    return rows, found, page.next


def _place(spec: Spec, key: str) -> int:
    return list(spec.flow).index(key) + 1


def _roles(text: str) -> list[str]:
    return msgspec.json.decode(text, type=list[str]) if text else []


async def _specs(store: Store, project: str, flows: Iterable[int]) -> dict[int, Spec | None]:
    named = list(dict.fromkeys(flows))
    return dict(zip(named, await asyncio.gather(*(_spec(store, project, flow) for flow in named)), strict=True))


async def _spec(store: Store, project: str, flow: int) -> Spec | None:
    raw = await store.command("GET", keys.run_spec.key(project, str(flow)))
    return None if raw is None else unpack(raw)
