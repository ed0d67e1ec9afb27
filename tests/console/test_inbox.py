"""The inbox: what waits for a person, of all kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.console.inbox.answered import History, PastAnswer, read_history
from coordinator.console.inbox.waiting import KINDS, Inbox, Kind, Waiting, count_waiting, read_inbox
from coordinator.definitions import Definitions
from coordinator.errors import ToolFailure
from coordinator.store import Store
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.rules.permissions import ADMIN
from coordinator.toolsets.gateway.decisions import Decisions
from coordinator.toolsets.gateway.listener import Listener
from tests.flows.client import Flows, gate
from tests.gateway.lab import Lab, section, settings_of
from tests.gateway.workflows import APPROVAL
from tests.sessions import lab
from tests.sessions.client import Sessions
from tests.sessions.pending import Pending
from tests.worker.client import Tools

pytestmark = pytest.mark.anyio


def person(id: str, *roles: str) -> Caller:
    return Caller(id, "user", frozenset(roles), frozenset({"*", "workflow.admin"}))


class Desk:
    """What asks in a project, and the inbox of who looks."""

    def __init__(self, store: Store, project: str, folder: Path) -> None:
        self.store, self.project, self.folder = store, project, folder
        self.gateway = Lab(store, project, settings_of(section(workflows={"w": APPROVAL}), project))
        self.decisions = Decisions.of(store, self.gateway.settings, Listener(store))

    async def approval(self) -> str:
        ana = self.gateway.as_("ana", "human")
        asked = await ana.follow(await ana.start("w"), "ask")
        return str(asked["pendingHuman"][0]["requestId"])

    async def gate(self) -> str:
        flows = Flows(self.store, self.project).as_("ana", "*")
        flow = await flows.create({"start": gate("release", approver_role="lead", done=True)})
        return str((await flows.step(flow, "release"))["id"])

    async def checkpoint(self) -> Pending:
        definitions = Definitions([lab.write(self.folder)], 0)
        return await Pending.at(Sessions(self.store, self.project, definitions))

    async def question(self) -> str:
        tools = Tools(self.store, self.project)
        item = await tools.add("Choose one")
        worker = tools.worker("ann")
        assert await worker.take() == item
        await worker.ask("Which?")
        return item.replace("-", "")

    async def history(self, who: Caller | None = None, **more: object) -> History:
        return await read_history(self.store, self.project, self.decisions, who, **more)  # type: ignore[arg-type]

    async def inbox(self, who: Caller | None = None, **more: object) -> Inbox:
        return await read_inbox(self.store, self.project, self.decisions, who, **more)  # type: ignore[arg-type]


@pytest.fixture
def desk(store: Store, project: str, tmp_path: Path) -> Desk:
    return Desk(store, project, tmp_path)


async def test_all_that_waits_for_a_person_is_in_one_list(desk: Desk) -> None:
    assert (await desk.inbox(person("bo"))).rows == []
    approval, step = await desk.approval(), await desk.gate()
    await desk.checkpoint()
    item = await desk.question()
    found = await desk.inbox(person("bo", "human"))
    assert found.next == {}
    assert [row.since for row in found.rows] == sorted((row.since for row in found.rows), reverse=True)
    by_kind: dict[Kind, Waiting] = {row.kind: row for row in found.rows}
    assert {*by_kind} == {*KINDS}
    one = by_kind["approval"]
    assert (one.id, one.title, one.asked_by, one.whom, one.refusal) == (approval, "w", "ana", "reviews", "")
    one = by_kind["gate"]
    assert (one.id, one.title, one.asked_by, one.whom) == (step, "release", "ana", "lead")
    assert one.refusal == "The role 'lead' is required."
    one = by_kind["checkpoint"]
    assert (one.title, one.asked_by, one.refusal) == ("go", "orchestrator", "")
    one = by_kind["question"]
    assert (one.id, one.title, one.asked_by) == (item, "Choose one", "ann")
    # Four eyes.
    own = {row.kind: row.refusal for row in (await desk.inbox(person("ana", "human", "lead"))).rows}
    assert own["approval"] == "The requester must not decide this."
    assert own["gate"] == ""


async def test_each_kind_has_pages_of_its_own(desk: Desk) -> None:
    gates = [await desk.gate() for _ in range(3)]
    approvals = [await desk.approval() for _ in range(2)]
    first = await desk.inbox(person("bo"), limit=2)
    assert {*first.next} == {"gate", "approval"}
    second = await desk.inbox(person("bo"), kinds=list(first.next), after=first.next, limit=2)
    assert second.next == {}
    ids = [row.id for row in (*first.rows, *second.rows)]
    assert sorted(ids) == sorted(gates + approvals)
    only = await desk.inbox(person("bo"), kinds=["checkpoint"])
    assert (only.rows, only.next) == ([], {})
    assert (await desk.inbox(person("bo"), kinds=[])) == Inbox(0, [], {})


async def test_what_waits_is_counted_without_being_read(desk: Desk) -> None:
    assert await count_waiting(desk.store, desk.project, None) == dict.fromkeys(KINDS, 0)
    pending = await desk.checkpoint()
    await desk.approval()
    await desk.question()
    for _ in range(2):
        await desk.gate()
    counted = {"approval": 1, "gate": 2, "checkpoint": 1, "question": 1}
    assert await count_waiting(desk.store, desk.project, person("bo")) == counted
    # A caller counts the gates that they may see.
    stranger = Caller("eve", "user", frozenset(), frozenset({"*"}))
    assert (await count_waiting(desk.store, desk.project, stranger, kinds=["gate"])) == {"gate": 0}
    assert not (await pending.respond()).error
    assert await count_waiting(desk.store, desk.project, None, kinds=["checkpoint"]) == {"checkpoint": 0}


async def all_kinds(desk: Desk) -> None:
    """Has people answer one of each kind."""
    ana, bo = desk.gateway.as_("ana", "human"), desk.gateway.as_("bo", "human")
    asked = await ana.follow(await ana.start("w"), "ask")
    await bo.follow(asked, "approve")
    flow = await Flows(desk.store, desk.project).as_("ana", "*").create({"start": gate("release", done=True)})
    await Flows(desk.store, desk.project).as_("bo", "*", ADMIN).release(flow, "release")
    assert not (await (await desk.checkpoint()).respond()).error
    item = await desk.question()
    tools = Tools(desk.store, desk.project)
    await tools.answer_question(item, "This one")
    await tools.advance(item, "complete")


async def test_what_was_answered_is_in_one_history(desk: Desk) -> None:
    assert await desk.history(person("bo")) == History([], "")
    await all_kinds(desk)
    found = await desk.history(person("bo"))
    assert found.next == ""
    assert [row.at for row in found.rows] == sorted((row.at for row in found.rows), reverse=True)
    by_kind: dict[Kind, PastAnswer] = {row.kind: row for row in found.rows}
    assert {*by_kind} == {*KINDS}
    told = {kind: (row.by, row.what, row.asked_by) for kind, row in by_kind.items()}
    assert told["approval"] == ("bo", "approve", "ana")
    assert told["gate"] == ("bo", "released", "ana")
    assert told["checkpoint"] == ("orchestrator", "proceed", "orchestrator")
    assert told["question"][1:] == ("This one", "ann")
    # A stranger's history lacks the flows that they may not see.
    stranger = Caller("eve", "user", frozenset(), frozenset({"*"}))
    assert {row.kind for row in (await desk.history(stranger)).rows} == {*KINDS} - {"gate"}


async def test_the_history_has_pages_in_one_order(desk: Desk) -> None:
    flows = Flows(desk.store, desk.project).as_("bo", "*")
    for _ in range(2):
        await all_kinds(desk)
    for _ in range(3):
        await flows.release(await flows.create({"start": gate("release", done=True)}), "release")
    whole = (await desk.history(person("bo"))).rows
    assert len(whole) == 11
    stranger = Caller("bo", "user", frozenset(), frozenset({"*"}))  # to the flows of others
    own = [row for row in whole if row.kind != "gate" or row.asked_by == "bo"]
    for who, expected in ((person("bo"), whole), (stranger, own)):
        rows, after = list[PastAnswer](), ""
        while page := await desk.history(who, after=after, limit=2):
            rows += page.rows
            if not (after := page.next):
                break
        assert rows == expected
    with pytest.raises(ToolFailure, match="earlier page"):
        await desk.history(after="gate:yesterday")
    with pytest.raises(ToolFailure, match="earlier page"):
        await desk.history(after="mail:1-1")
