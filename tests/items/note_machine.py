"""A stateful machine of items and notes, and how much is tried with such machines."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.items.client import Json, actor, fresh_id
from tests.items.machine import (
    AGENTS,
    EDGES,
    KIND,
    SLOTS,
    Kind,
    Tools,
    agrees,
    names,
)
from tests.items.model_parts import Edge, Item, Tree
from tests.items.model_schemas import Note

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "20"))
SEEDS = max(4, EXAMPLES // 10)
USUAL = {
    "plan": "queue",
    "hint": "queue",
    "done": "work",
    "log": "work",
    "verdict": "review",
    "audit": "work",
    "off": "queue",
}
KEYS = st.sampled_from([*USUAL])
PHASES = st.sampled_from(["queue", "work", "review"])
BODIES = st.sampled_from(["text", "text", "", " \n"])
BLANK = ("", " \n")
WRITTEN = st.tuples(SLOTS, KEYS, PHASES, BODIES, st.sampled_from(["", "ann", "bob"]))
REFS = ("root", "a", "b", "c")
NUMBERED = st.integers(-1, 9)
"""Which note, latest first; -1 stands for one that does not exist."""
NUMBERS = st.integers(0, 3)
"""Which item of a tree, or which edge, modulo how many there are."""


class NotedTools(Tools):
    """With notes, gates and whole trees."""

    def __init__(self) -> None:
        super().__init__()
        self.note_ids: list[str] = []

    # --- notes

    @rule(wanted=st.lists(WRITTEN, min_size=1, max_size=3))
    def write(self, wanted: list[tuple[int, str, str, str, str]]) -> None:
        self.upsert([(self.at(slot), key, Note(role, body, who)) for slot, key, role, body, who in wanted])

    @rule(item=SLOTS, first=st.booleans(), agent=AGENTS)
    def write_and_work(self, item: int, first: bool, agent: str) -> None:
        """Fills the notes required by the item's gates, all or only the first, and works on the item."""
        wanted = self.at(item)
        if wanted in self.model.items and (missing := self.model.missing(wanted)):
            roles = {need["key"]: need["role"] for need in self.model.expected(wanted)}
            self.upsert([(wanted, key, Note(roles[key], "text", agent)) for key in missing[: 1 if first else None]])
        self.claim_and_end(wanted, agent)

    def upsert(self, wanted: list[tuple[str, str, Note]]) -> None:
        notes = [
            {"itemId": item, "key": key, "role": given.role, "body": given.body}
            | ({"actor": actor(given.author)} if given.author else {})
            for item, key, given in wanted
        ]
        answer = self.change("manage_notes", operation="upsert", notes=notes)
        written = [each for each in wanted if each[0] in self.model.items]
        assert (answer["upserted"], answer["failed"]) == (len(written), len(wanted) - len(written))
        assert [failure["index"] for failure in answer.get("failures", [])] == [
            number for number, (item, _, _) in enumerate(wanted) if item not in self.model.items
        ]
        for (item, key, given), made in zip(written, answer["notes"], strict=True):
            assert (made["itemId"], made["key"], made["role"]) == (item, key, given.role)
            assert made.get("actor", {}).get("id", "") == given.author
            self.write_one(item, key, given, made["id"])
            assert self.model.items[item].notes[key].id == made["id"]
        assert answer["itemContext"] == {item: self.model.standing(item) for item, _, _ in written}

    def write_one(self, item: str, key: str, given: Note, made: str) -> None:
        given.id = made
        self.model.write(item, key, given)
        if not given.created:
            given.created = self.run(self.tools("query_notes", operation="get", id=made))["createdAt"]
            self.note_ids.append(made)

    @rule(numbers=st.lists(NUMBERED, max_size=2), beside=st.none() | NUMBERED, whole=st.booleans())
    def unwrite(self, numbers: list[int], beside: int | None, whole: bool) -> None:
        """Deletes notes by id, some of them already deleted, and another by its key or all of its item."""
        ids = [self.note_id(number) for number in numbers]
        item, key = None, None
        if beside is not None:
            item, key = self.model.note_at(self.note_id(beside)) or (self.at(beside), "off")
        if not ids and item is None:
            return
        only = None if whole else key
        answer = self.change("manage_notes", operation="delete", ids=ids, itemId=item, key=only)
        assert answer == self.model.delete_notes(ids, item, only)

    def note_id(self, number: int) -> str:
        return self.note_ids[-1 - number % len(self.note_ids)] if self.note_ids and number >= 0 else fresh_id()

    @rule(number=NUMBERED)
    def get_note(self, number: int) -> None:
        wanted = self.note_id(number)
        if place := self.model.note_at(wanted):
            item, key = place
            shown = self.run(self.tools("query_notes", operation="get", id=wanted))
            assert note_of(shown) == self.note_at(item, key)
        else:
            assert self.run(self.tools.refusal("query_notes", operation="get", id=wanted)).code == "RESOURCE_NOT_FOUND"

    def note_at(self, item: str, key: str) -> tuple[Any, ...]:
        of = self.model.items[item].notes[key]
        return of.id, item, key, of.role, "" if of.body in BLANK else of.body, of.author, of.created

    def look_at(self, wanted: str) -> None:
        super().look_at(wanted)
        known = self.model.items.get(wanted)
        if known is None:
            for tool, more in (("query_notes", {"operation": "list"}), ("get_context", {}), ("get_next_status", {})):
                assert self.run(self.tools.refusal(tool, itemId=wanted, **more)).code == "RESOURCE_NOT_FOUND"
            return
        listed = self.run(self.tools("query_notes", operation="list", itemId=wanted))["notes"]
        expected = [self.note_at(wanted, key) for key in known.notes]
        assert [note_of(shown) for shown in listed] == sorted(expected, key=lambda of: (of[-1], of[2]))
        context = self.run(self.tools("get_context", itemId=wanted))
        claim = context.pop("claimDetail", None)
        context.pop("attempts", None)  # compared where the model counts them
        assert (claim is None) == (known.holder == "")
        if claim:
            assert (claim["claimedBy"], claim["isExpired"]) == (known.holder, not known.live)
            assert claim["originalClaimedAt"] == known.original
        assert context.pop("item")["role"] == known.role
        status = self.run(self.tools("get_next_status", itemId=wanted))
        waits = status.pop("blockers", [])
        assert context["gateStatus"].pop("blockers", []) == waits
        assert context == {"mode": "item", **self.model.context(wanted)}
        assert {(b["fromItemId"], b["currentRole"], b["requiredRole"]) for b in waits} == (
            self.model.waits_for(wanted) if known.role not in ("blocked", "terminal") else set()
        )
        status.pop("reason", None)
        status.pop("suggestion", None)
        assert status == self.model.status(wanted)

    # --- trees

    @rule(
        parent=st.none() | st.none() | SLOTS,
        specs=st.lists(KIND, min_size=1, max_size=4),
        edges=EDGES,
        notes=st.lists(st.tuples(NUMBERS, KEYS, st.none() | PHASES, BODIES), max_size=2),
        blank=st.booleans(),
    )
    def plant(
        self,
        parent: int | None,
        specs: list[Kind],
        edges: list[Any],
        notes: list[tuple[int, str, str | None, str]],
        blank: bool,
    ) -> None:
        above, refs = self.at_or_none(parent), REFS[: len(specs)]
        ends = [
            (refs[a % len(refs)], refs[(a + step) % len(refs)], kind, at)
            for a, step, kind, at in edges[:2]
            if step == 0 or step % len(refs)
        ]
        tree = Tree(
            {
                ref: Item(ref, "root" if ref != "root" else None, dict(fields), traits=names(traits))
                for ref, (fields, traits) in zip(refs, specs, strict=True)
            },
            [Edge(a, b, kind, None if kind == "RELATES_TO" else at) for a, b, kind, at in ends],
            [(refs[number % len(refs)], key, Note(role or USUAL[key], body)) for number, key, role, body in notes],
            blank,
        )
        arguments = {
            "root": specs[0][0] | {"traits": specs[0][1]},
            "parentId": above,
            "children": [
                {"ref": ref, **fields, "traits": traits}
                for ref, (fields, traits) in list(zip(refs, specs, strict=True))[1:]
            ],
            "deps": [{"from": e.source, "to": e.target, "type": e.type, "unblockAt": e.threshold} for e in tree.edges],
            "notes": [{"itemRef": ref, "key": key, "role": of.role, "body": of.body} for ref, key, of in tree.notes],
            "createNotes": blank,
        }
        if code := self.model.tree_refusal(above, tree):
            assert self.run(self.tools.refusal("create_work_tree", **arguments)).code == code
            return
        self.grow(above, tree, self.change("create_work_tree", **arguments))

    def grow(self, above: str | None, tree: Tree, answer: Json) -> None:
        """Adds the created items to the model."""
        nodes = [{"ref": "root", **answer["root"]}, *answer["children"]]
        assert [node["ref"] for node in nodes] == list(tree.items)
        ids = {node["ref"]: str(node["id"]) for node in nodes}
        for node, (ref, it) in zip(nodes, tree.items.items(), strict=True):
            it.id, it.parent = ids[ref], above if ref == "root" else ids["root"]
            self.keep(it)
            assert {name: node[name] for name in ("title", "role", "depth", "schemaMatch", "expectedNotes")} == {
                "title": it.shown["title"],
                "role": "queue",
                "depth": self.model.depth(it.id),
                "schemaMatch": self.model.schema(it.id) is not None,
                "expectedNotes": self.model.expected(it.id),
            }
        made = [(e["fromRef"], e["toRef"], e["type"], e.get("unblockAt")) for e in answer["dependencies"]]
        assert made == tree.edges
        self.model.edges += [Edge(ids[a], ids[b], kind, at) for a, b, kind, at in tree.edges]
        written = {(each["itemRef"], each["key"]): each for each in answer["notes"]}
        assert len(written) == len(answer["notes"])
        assert {place: each["role"] for place, each in written.items()} == {
            (ref, key): of.role for ref, it in tree.items.items() for key, of in it.notes.items()
        }
        for (ref, key), each in written.items():
            of = tree.items[ref].notes[key]
            of.author = "ann"
            self.write_one(ids[ref], key, of, each["id"])

    @rule(
        root=SLOTS,
        include=st.booleans(),
        trigger=st.sampled_from(["complete", "complete", "cancel"]),
        agent=st.just("") | AGENTS,
    )
    def end_below(self, root: int, include: bool, trigger: str, agent: str) -> None:
        above = self.at(root)
        arguments = {"rootId": above, "includeRoot": include}
        if above not in self.model.items:
            if include:
                assert self.run(self.tools.refusal("complete_tree", **arguments)).code == "RESOURCE_NOT_FOUND"
            return
        results = self.end(arguments, trigger, agent, {*self.model.below(above), *([above] if include else [])})
        if include:
            assert results[-1]["itemId"] == above
            results.pop()
        self.check_order(results)

    @rule(
        slots=st.lists(SLOTS, min_size=1, max_size=3),
        tied=st.lists(NUMBERS, max_size=3),
        trigger=st.sampled_from(["complete", "complete", "cancel"]),
        agent=st.just("") | AGENTS,
    )
    def end_these(self, slots: list[int], tied: list[int], trigger: str, agent: str) -> None:
        """Any items, and the ends of some edges, in reversed order."""
        edges = [self.model.edges[number % len(self.model.edges)] for number in tied if self.model.edges]
        ids = [self.at(slot) for slot in slots] + [end for edge in edges for end in (edge.blocked, edge.blocker)]
        self.check_order(self.end({"itemIds": ids}, trigger, agent, {*ids}))

    @precondition(lambda self: any(it.parent for it in self.model.items.values()))
    @rule(slot=SLOTS, agent=AGENTS)
    def cancel_and_reopen(self, slot: int, agent: str) -> None:
        """An item below one that has ended with it: whether that follows depends on its lifecycle."""
        items = [(it.id, it.parent) for it in self.model.items.values() if it.parent]
        item, above = items[slot % len(items)]
        self.end({"rootId": above, "includeRoot": True}, "cancel", agent, {above, *self.model.below(above)})
        self.apply([(item, "reopen", None)], agent)

    def end(self, arguments: Json, trigger: str, agent: str, items: set[str]) -> list[Json]:
        who = actor(agent) if agent else None
        answer = self.change("complete_tree", **arguments, trigger=trigger, actor=who)
        if not agent:
            self.last = None  # runs each time
        unknown = {result["itemId"] for result in answer["results"] if result.get("errorCode") == "not_found"}
        assert unknown == items - self.model.items.keys()
        results: list[Json] = [result for result in answer["results"] if result["itemId"] not in unknown]
        items = items - unknown
        order = [result["itemId"] for result in results]
        assert len(order) == len(items)
        assert set(order) == items
        expected = self.model.complete(order, trigger, agent)
        for result, wanted in zip(results, expected, strict=True):
            assert agrees(result, wanted), (result, wanted)
        completed = sum(result["applied"] for result in results)
        gates = sum("gateErrors" in result for result in results)
        assert answer["summary"] == {
            "total": len(answer["results"]),
            "completed": completed,
            "skipped": len(answer["results"]) - completed - gates,
            "gateFailures": gates,
        }
        return results

    def check_order(self, results: list[Json]) -> None:
        """Blockers come before their dependents."""
        order = [result["itemId"] for result in results]
        for number, item in enumerate(order):
            assert not self.model.blocked_by(item) & {*order[:number]}

    def check_everything(self) -> None:
        super().check_everything()
        health = self.run(self.tools("get_context"))
        active = {it.id for it in self.model.items.values() if it.role in ("work", "review")}
        blocked = {it.id for it in self.model.items.values() if it.role == "blocked"}
        assert {entry["id"] for entry in health["activeItems"]} == active
        assert {entry["id"] for entry in health["blockedItems"]} == blocked
        stalled = {item: self.model.missing(item, self.model.items[item].role) for item in active}
        assert {entry["id"]: entry["missingNotes"] for entry in health["stalledItems"]} == {
            item: missing for item, missing in stalled.items() if missing
        }


def note_of(shown: Json) -> tuple[Any, ...]:
    author = shown.get("actor", {}).get("id", "")
    return shown["id"], shown["itemId"], shown["key"], shown["role"], shown["body"], author, shown["createdAt"]
