"""Everything that a fleet needs beyond claims against a model, all together: any sequence of calls gets its answers.

Results that come with transitions, what claims and contexts include, attempts with quarantine, requirements,
and drains of agents, mixed with all that ``test_model.py`` does.

Deeper: ``MODEL_EXAMPLES=2000 pytest tests/items/test_together_model.py``.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from coordinator.settings import Settings
from coordinator.toolsets.items.store.agents.drains import begin_drain, end_drain
from tests.items.client import Json, actor
from tests.items.machine import AGENTS, DECLARED, FENCES, PLAIN, SLOTS, TRIGGERS, Session
from tests.items.model_parts import Edge
from tests.items.model_schemas import Note
from tests.items.note_machine import EXAMPLES, NotedTools
from tests.items.results import read

ALL = ["item", "notes", "results"]
CAPABILITIES = st.lists(st.sampled_from(["gpu", "linux"]), unique=True)
EVENTS = Settings().events_max
VALUES = st.sampled_from(["text", '{"no": "JSON"}', {"rows": [1, None]}, [], 0, False])
MOST = 2
"""Attempts of an item."""
WITH_RESULT: Json = {**copy.deepcopy(DECLARED), "attempts": {"max": MOST, "backoff_seconds": 0}}
WITH_RESULT["work_item_schemas"]["task"]["notes"].append({"key": "result", "role": "work", "required": True})
WITH_RESULT["work_item_schemas"]["feature"]["notes"].append({"key": "result", "role": "review"})


class Together(NotedTools):
    """With results, and claims that include everything."""

    declared = WITH_RESULT

    def __init__(self) -> None:
        super().__init__()
        self.model.most_attempts = MOST
        self.include: list[str] = []
        self.naming: dict[str, list[str]] = {}
        """Capabilities that the agents name with their next claim."""
        self.in_json: set[str] = set()
        """The ids of notes that are results in JSON."""

    # --- results

    @rule(slot=SLOTS, number=TRIGGERS, fence=FENCES, agent=st.just("") | AGENTS, value=VALUES)
    def advance_with_result(self, slot: int, number: int, fence: int | None, agent: str, value: Any) -> None:
        item = self.at(slot)
        self.apply_with_result(item, self.trigger(item, number), agent, value, self.fence(slot, fence))

    @precondition(lambda self: any(item.live for item in self.model.items.values()))
    @rule(slot=SLOTS, trigger=st.sampled_from(["start", "complete", "cancel"]), value=VALUES)
    def holder_ends_with_result(self, slot: int, trigger: str, value: Any) -> None:
        """With the required notes of the item, but for the result."""
        held = [item for item in self.model.items.values() if item.live]
        item = held[slot % len(held)]
        self.fill_all_but_the_result(item.id)
        self.apply_with_result(item.id, trigger, item.holder, value, item.fence)

    def fill_all_but_the_result(self, item: str) -> None:
        roles = {need["key"]: need["role"] for need in self.model.expected(item)}
        if wanted := [key for key in self.model.missing(item) if key != "result"]:
            self.upsert([(item, key, Note(roles[key], "text", "ann")) for key in wanted])

    @rule(
        slot=SLOTS,
        kind=st.sampled_from(["task", "feature", "checked", None]),
        trigger=st.sampled_from(["complete", "complete", "cancel"]),
        threshold=st.sampled_from([None, "work"]),
        value=VALUES,
        include=st.booleans(),
    )
    def pass_a_result_on(
        self, slot: int, kind: str | None, trigger: str, threshold: str | None, value: Any, include: bool
    ) -> None:
        """From a new item to one that depends on it."""
        item, made = self.at(slot), self.add(None, "queue", {**PLAIN, "type": kind})
        assert made is not None
        if item in self.model.items:
            self.link_items([Edge(made, item, "BLOCKS", threshold)])
        self.fill_all_but_the_result(made)
        self.apply_with_result(made, trigger, "", value, None)
        if include and item in self.model.items:
            self.look_at(item)

    def apply_with_result(self, item: str, trigger: str, agent: str, value: Any, fence: int | None) -> None:
        transition = {"itemId": item, "trigger": trigger, "result": value, "fenceToken": fence}
        if agent:
            transition["actor"] = actor(agent)
        answer = self.change("advance_item", transitions=[transition])
        if not agent:
            self.last = None  # runs each time
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        self.compare(item, answer["results"][0], self.model.advance(item, trigger, agent, fence, text))
        if answer["results"][0]["applied"]:
            notes = self.run(self.tools("query_notes", operation="list", itemId=item))["notes"]
            (made,) = [note for note in notes if note["key"] == "result"]
            assert read(made) == value
            self.in_json -= {made["id"]}
            self.in_json |= set() if isinstance(value, str) else {made["id"]}
            self.write_one(item, "result", self.model.items[item].notes["result"], made["id"])

    def upsert(self, wanted: list[tuple[str, str, Note]]) -> None:
        super().upsert(wanted)
        for item, key, _ in wanted:
            if item in self.model.items:
                self.in_json.discard(self.model.items[item].notes[key].id)

    # --- attempts

    @rule(slot=SLOTS, agent=AGENTS, reason=st.sampled_from(["failed", "gave_up", "handed_back", "hopeless"]))
    def release_with_a_reason(self, slot: int, agent: str, reason: str) -> None:
        self.give_up(self.at(slot), agent, reason)

    def give_up(self, item: str, agent: str, reason: str) -> None:
        answer = self.change("claim_item", actor=actor(agent), releases=[{"itemId": item, "reason": reason}])
        (released,) = answer["releaseResults"]
        assert released["outcome"] == self.model.release(agent, item, None, reason)

    @precondition(lambda self: any(item.live for item in self.model.items.values()))
    @rule(slot=SLOTS, again=st.booleans(), late=st.booleans())
    def fail_with_what_is_held(self, slot: int, again: bool, late: bool) -> None:
        """An agent begins and dies, or gives up; with ``again``, so does the next one."""
        held = [item for item in self.model.items.values() if item.live]
        item = held[slot % len(held)]
        agent = item.holder
        for _ in range(1 + again):
            self.apply([(item.id, "start", None)], agent)
            if item.live:
                if late:
                    self.end_by_time(item)
                else:
                    self.give_up(item.id, agent, "failed")
            if again and item.role in ("work", "review") and agent not in self.model.drained:
                agent = self.claim_next_as(item.id, agent)
        self.look_at(item.id)

    def claim_next_as(self, item: str, before: str) -> str:
        """Another agent claims the item, if it may; returns it."""
        agent = next(each for each in ("ann", "bob", "cy") if each != before)
        self.claim_one(item, agent)
        return agent

    @precondition(lambda self: any(item.held == "quarantine" for item in self.model.items.values()))
    @rule(slot=SLOTS, trigger=st.sampled_from(["resume", "resume", "cancel", "start"]), agent=st.just("") | AGENTS)
    def move_what_is_quarantined(self, slot: int, trigger: str, agent: str) -> None:
        items = [item for item in self.model.items.values() if item.held == "quarantine"]
        item = items[slot % len(items)]
        self.apply([(item.id, trigger, None)], agent)
        self.look_at(item.id)

    # --- requirements

    @rule(slot=SLOTS, requires=CAPABILITIES)
    def require(self, slot: int, requires: list[str]) -> None:
        item = self.at(slot)
        self.change("manage_items", operation="update", items=[{"id": item, "requires": requires}])
        if item in self.model.items:
            self.model.items[item].requires = {*requires}

    @rule(slot=SLOTS, assignee=st.none() | AGENTS)
    def assign(self, slot: int, assignee: str | None) -> None:
        item = self.at(slot)
        self.change("manage_items", operation="update", items=[{"id": item, "assignee": assignee}])
        if item in self.model.items:
            self.model.items[item].assignee = assignee

    @rule(agent=AGENTS, able=CAPABILITIES, begin=st.booleans())
    def take_with(self, agent: str, able: list[str], begin: bool) -> None:
        """Names what the agent can do, which counts until it names something else."""
        self.naming[agent] = able
        self.take_best(agent, begin)

    # --- drains

    @rule(agent=AGENTS, drained=st.booleans())
    def drain_or_not(self, agent: str, drained: bool) -> None:
        if drained:
            self.run(begin_drain(self.session.store, self.tools.project, EVENTS, agent))
        else:
            self.run(end_drain(self.session.store, self.tools.project, EVENTS, agent))
        self.model.drained = self.model.drained | {agent} if drained else self.model.drained - {agent}

    # --- includes

    @rule(include=st.lists(st.sampled_from(ALL), unique=True))
    def include_from_now_on(self, include: list[str]) -> None:
        self.include = include

    def change(self, tool: str, **arguments: Any) -> Json:
        if tool != "claim_item":
            return super().change(tool, **arguments)
        agent, more = arguments["actor"]["id"], {"include": self.include} if self.include else {}
        if agent in self.naming:
            more["capabilities"] = self.naming.pop(agent)
            self.model.able[agent] = {*more["capabilities"]}
        answer = super().change(tool, **arguments, **more)
        drained = agent in self.model.drained
        for claim in answer["claimResults"]:
            held = claim["outcome"] == "success"
            assert claim.get("stop", False) == (held and drained)
            if held and self.include:
                self.check_included(claim["itemId"], claim, self.include)
            else:
                assert not {*ALL} & claim.keys()
        return answer

    def check_included(self, item: str, shown: Json, parts: list[str]) -> None:
        """What a claim or a context includes is what the reads show, and the results of the model."""
        assert {*ALL} & shown.keys() - {"item"} == {*parts} - {"item"}
        if "item" in parts:
            assert shown["item"] == self.run(self.tools.get(item))
        if "notes" in parts:
            assert shown["notes"] == self.run(self.tools("query_notes", operation="list", itemId=item))["notes"]
        if "results" in parts:
            found = {}
            for result in shown["results"]:
                note = self.model.items[result["itemId"]].notes["result"]
                assert (result["noteId"], result["role"]) == (note.id, self.model.items[result["itemId"]].role)
                assert (result.get("format") == "json") == (note.id in self.in_json)
                found[result["itemId"]] = result["result"]
            assert found == {
                blocker: json.loads(body) if self.model.items[blocker].notes["result"].id in self.in_json else body
                for blocker, body in self.model.results(item).items()
            }

    def look_at(self, wanted: str) -> None:
        super().look_at(wanted)
        if wanted in self.model.items:
            known, shown = self.model.items[wanted], self.run(self.tools.get(wanted))
            assert {*shown.get("requires", ())} == known.requires
            assert shown.get("assignee") == known.assignee
            assert shown.get("attempts", {"count": 0})["count"] == known.count
            self.check_included(wanted, self.run(self.tools("get_context", itemId=wanted, include=ALL)), ALL)


@pytest.mark.timeout(400 + EXAMPLES)  # a failure is shrunk for up to five minutes
def test_any_sequence_of_calls_follows_the_model(redis_url: str) -> None:
    session = Session(redis_url)
    Together.session = session
    try:
        run_state_machine_as_test(
            Together,
            settings=settings(
                max_examples=EXAMPLES, stateful_step_count=40, print_blob=True, suppress_health_check=list(HealthCheck)
            ),
        )
    finally:
        session.close()
