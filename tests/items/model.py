"""A simple model of items, notes, dependencies, transitions and claims.

Everything is recomputed from the items at each query; there are no indexes or counters.
Answers are plain values that a test compares with those of the tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.items.model_parts import (
    FORWARD,
    LABELS,
    MAX_DEPTH,
    NO_RESULT,
    PRIORITIES,
    Change,
    Edge,
    Item,
    Outcome,
    Tree,
)
from tests.items.model_schemas import NONE, Note, Schema, resolve, standing


class Model:
    """One project."""

    def __init__(self, schemas: dict[str, Any] = NONE) -> None:
        self.schemas = schemas
        self.items: dict[str, Item] = {}
        self.edges: list[Edge] = []
        self.drained: set[str] = set()
        """Agents that may only renew."""
        self.able: dict[str, set[str]] = {}
        """The capabilities that agents have named last."""
        self.most_attempts = 0
        """The most attempts of an item; 0: any number."""

    # --- the tree

    def children(self, item: str) -> list[Item]:
        return [each for each in self.items.values() if each.parent == item]

    def above(self, item: str) -> Iterator[Item]:
        """The ancestors, nearest first."""
        parent = self.items[item].parent
        while parent is not None:
            yield self.items[parent]
            parent = self.items[parent].parent

    def depth(self, item: str) -> int:
        return sum(1 for _ in self.above(item))

    def height(self, item: str) -> int:
        return max((1 + self.height(child.id) for child in self.children(item)), default=0)

    def create_refusal(self, parent: str | None) -> str:
        if parent is None:
            return ""
        if parent not in self.items:
            return "parentId: no such item"
        return "depth would exceed" if self.depth(parent) == MAX_DEPTH else ""

    def waits_for_children(self, it: Item) -> bool:
        """Whether the item is not offered because of its children."""
        below = self.children(it.id)
        schema = self.schema(it.id)
        lasts = bool(below) and schema is not None and schema.lifecycle == "permanent"
        return it.role in ("queue", "work") and (lasts or any(child.role != "terminal" for child in below))

    def _child_went(self, parent: str | None) -> None:
        """An open child of the parent has ended, or is elsewhere."""
        it = None if parent is None else self.items.get(parent)
        if it is None or any(child.role != "terminal" for child in self.children(it.id)):
            return
        schema = self.schema(it.id)
        if not (schema and schema.lifecycle == "permanent" and self.children(it.id)):
            it.follows = (it.previous or "queue" if it.role == "blocked" else it.role) == "work"

    def move(self, item: str, parent: str | None) -> str:
        """Why the item cannot move below the parent, '' if it did."""
        if parent == self.items[item].parent:
            return ""
        if parent is not None:
            if parent not in self.items:
                return "parentId: no such item"
            if item == parent or item in (each.id for each in self.above(parent)):
                return "cannot move below itself"
            if self.depth(parent) + 1 + self.height(item) > MAX_DEPTH:
                return "depth would exceed"
        before, self.items[item].parent = self.items[item].parent, parent
        if self.items[item].role != "terminal":
            self._child_went(before)
        self._child_came(parent)
        return ""

    def add(self, item: Item) -> None:
        self.items[item.id] = item
        self._child_came(item.parent)

    def _child_came(self, parent: str | None) -> None:
        if parent is None or self.items[parent].role != "terminal":
            return
        if (schema := self.schema(parent)) and schema.lifecycle == "auto-reopen":
            self._change(self.items[parent], "work", "in-progress", cascade=True)
            self._cascade(self.items[parent], "", Outcome(""))

    def delete(self, ids: list[str], recursive: bool) -> dict[str, Any]:
        """The expected answer of manage_items delete."""
        failures, gone = [], []
        for item in ids:
            if item in gone:
                continue
            if item not in self.items:
                failures.append({"id": item, "error": "no such item"})
            elif not recursive and (children := len(self.children(item))):
                error = f"item has {children} children; use recursive to delete them too"
                failures.append({"id": item, "error": error})
            else:
                gone += self._remove(item)
        failures = [failure for failure in failures if failure["id"] not in gone]  # listed once more after its children
        refused = {failure["id"] for failure in failures}
        answer: dict[str, Any] = {
            "ids": [item for item in dict.fromkeys(ids) if item not in refused],
            "deleted": len(gone),
            "failed": len(failures),
        }
        if below := sum(item not in ids for item in gone):
            answer["descendantsDeleted"] = below
        return answer | ({"failures": failures} if failures else {})

    def _remove(self, item: str) -> list[str]:
        gone = [each for child in self.children(item) for each in self._remove(child.id)]
        removed = self.items.pop(item)
        if removed.role != "terminal":
            self._child_went(removed.parent)
        self.edges = [edge for edge in self.edges if item not in edge[:2]]
        return [*gone, item]

    # --- notes

    def schema(self, item: str) -> Schema | None:
        it = self.items[item]
        return resolve(self.schemas, it.shown.get("type"), it.shown.get("tags"), it.traits)

    def missing(self, item: str, role: str | None = None) -> list[str]:
        """Keys of the required notes of a phase, or of all, that are not filled."""
        schema = self.schema(item)
        return [need["key"] for need in schema.missing(self.items[item].notes, role)] if schema else []

    def standing(self, item: str) -> dict[str, Any]:
        return standing(self.schema(item), self.items[item].role, self.items[item].notes)

    def expected(self, item: str, role: str | None = None) -> list[dict[str, Any]]:
        schema = self.schema(item)
        return schema.expected(self.items[item].notes, role) if schema else []

    def context(self, item: str) -> dict[str, Any]:
        """The notes in get_context."""
        it, expected = self.items[item], self.expected(item)
        filled = {key for key, note in it.notes.items() if note.filled}
        missing = self.missing(item, it.role)
        moves = it.role not in ("blocked", "terminal") and not missing and not self.waits_for(item)
        return {
            "schema": [entry | {"filled": entry["key"] in filled} for entry in expected],
            "gateStatus": {"canAdvance": moves, "phase": it.role, "missing": missing},
            **self.standing(item),
        }

    def write(self, item: str, key: str, note: Note) -> None:
        """A note under an existing key replaces it but keeps id and time."""
        old = self.items[item].notes.get(key)
        if old:
            note.id, note.created = old.id, old.created
        self.items[item].notes[key] = note

    def note_at(self, note: str) -> tuple[str, str] | None:
        """Item and key of a note."""
        return next(((it.id, key) for it in self.items.values() for key in it.notes if it.notes[key].id == note), None)

    def delete_notes(self, ids: list[str], item: str | None, key: str | None) -> dict[str, Any]:
        """The expected answer of manage_notes delete."""
        found = {note: place for note in ids if (place := self.note_at(note))}
        unknown = [{"id": note, "error": "no such note"} for note in ids if note not in found]
        deleted = len(found)
        for owner, name in found.values():
            del self.items[owner].notes[name]
        notes = self.items[item].notes if item in self.items else {}
        for each in [each for each in notes if key in (None, each)]:
            del notes[each]
            deleted += 1
        return {"deleted": deleted, "failed": len(unknown)} | ({"failures": unknown} if unknown else {})

    # --- dependencies

    def link(self, batch: list[Edge]) -> list[tuple[int, str]]:
        """Index and reason of each refusal; without any the edges are created."""
        refusals: list[tuple[int, str]] = []
        tried: set[tuple[str, str, str]] = set()
        accepted: list[Edge] = []
        for number, edge in enumerate(batch):
            if edge.source == edge.target:
                refusals.append((number, "same item on both sides"))
            elif edge.source not in self.items or edge.target not in self.items:
                refusals.append((number, "no such item"))
            elif edge[:3] in tried or edge[:3] in [each[:3] for each in self.edges]:
                refusals.append((number, "exists already"))
            else:
                tried.add(edge[:3])
                if edge.type != "RELATES_TO" and self._reaches(edge.blocked, edge.blocker, accepted):
                    refusals.append((number, "close a cycle"))
                else:
                    accepted.append(edge)
        if not refusals:
            self.edges += batch
        return refusals

    def _reaches(self, start: str, goal: str, accepted: list[Edge]) -> bool:
        edges = [edge for edge in self.edges + accepted if edge.type != "RELATES_TO"]
        seen, todo = {start}, [start]
        while todo:
            at = todo.pop()
            if at == goal:
                return True
            new = {edge.blocked for edge in edges if edge.blocker == at} - seen
            seen |= new
            todo += new
        return False

    def unlink(self, source: str, target: str | None) -> int:
        """Deletes the edges from source to target, or all of one item; returns how many."""
        kept = [
            edge
            for edge in self.edges
            if (edge[:2] != (source, target) if target is not None else source not in edge[:2])
        ]
        deleted = len(self.edges) - len(kept)
        self.edges = kept
        return deleted

    def waits_for(self, item: str) -> set[tuple[str, str, str]]:
        """Unsatisfied blockers: id, role, role needed."""
        found = set()
        for edge in self.edges:
            if edge.type == "RELATES_TO" or edge.blocked != item:
                continue
            role, needed = self.items[edge.blocker].role, edge.threshold or "terminal"
            if role == "blocked" or FORWARD.index(role) < FORWARD.index(needed):
                found.add((edge.blocker, role, needed))
        return found

    # --- transitions

    def advance(self, item: str, trigger: str, agent: str = "", fence: int | None = None, result: str = "") -> Outcome:
        """``result``: the body of the item's note ``result``; '' for none. Its id is left for the caller to fill."""
        it = self.items.get(item)
        if it is None:
            return Outcome("no such item")
        if it.live and it.holder != agent:
            return Outcome("not_claim_holder")
        if fence is not None and fence != it.fence:
            return Outcome("stale_fence")
        if trigger == "start" and it.takeover and it.holder == agent:
            if result:
                return Outcome(NO_RESULT)
            if blockers := self.waits_for(item):
                return Outcome("blocking dependencies are not satisfied", blockers)
            it.takeover = False
            return Outcome(before=it.role, after=it.role, label=it.label)
        after = self._target(it, trigger)
        if after not in (*FORWARD, "blocked"):
            return Outcome(after)
        if result and after != "terminal":
            return Outcome(NO_RESULT)
        before = it.role
        forward = "blocked" not in (before, after) and FORWARD.index(after) > FORWARD.index(before)
        if forward and trigger != "cancel" and (blockers := self.waits_for(item)):
            return Outcome("blocking dependencies are not satisfied", blockers)
        if trigger in ("start", "complete"):
            missing = self.missing(item, before if trigger == "start" else None)
            if missing := [key for key in missing if not result or key != "result"]:
                return Outcome("Gate check failed", missing=missing)
        if result:
            phases = {need["key"]: need["role"] for need in self.expected(item)}
            role = (it.previous or "queue") if before == "blocked" else before
            self.write(item, "result", Note(phases.get("result", role), result, agent))
        label = "done" if trigger == "start" and after == "terminal" else LABELS.get(trigger)
        if label is None and after == "blocked":
            label = it.label
        self._change(it, after, label)
        outcome = Outcome(before=before, after=after, label=label)
        self._cascade(it, trigger, outcome)
        changed = {item, *(change.item for change in outcome.cascades if not change.missing)}
        free = {each for each in self.blocked_by(*changed) if not self.waits_for(each)}
        outcome.unblocked = {each for each in free if self.items[each].role != "terminal"}
        return outcome

    def results(self, item: str) -> dict[str, str]:
        """The bodies of the results of an item's blockers, by blocker."""
        blockers = {edge.blocker for edge in self.edges if edge.type != "RELATES_TO" and edge.blocked == item}
        found = {each: self.items[each].notes.get("result") for each in blockers}
        return {each: note.body for each, note in found.items() if note and note.filled}

    def _target(self, it: Item, trigger: str) -> str:
        """The new role, or why there is none."""
        if trigger == "reopen":
            return "queue" if it.role == "terminal" else "only a terminal item can be reopened"
        if it.role == "terminal":
            return "already terminal"
        if trigger == "cancel":
            return "terminal"
        if trigger == "resume":
            return (it.previous or "queue") if it.role == "blocked" else "only a blocked item"
        if it.role == "blocked":
            return "already blocked" if trigger in ("block", "hold") else "use 'resume' first"
        if trigger in ("block", "hold"):
            return "blocked"
        if trigger == "complete" or it.role == "review":
            return "terminal"
        if it.role == "queue":
            return "work"
        schema = self.schema(it.id)
        return "review" if schema and schema.has_review else "terminal"

    def _change(self, it: Item, after: str, label: str | None, cascade: bool = False) -> None:
        ended = it.role != "terminal" and after == "terminal"
        it.change(after, cascade=cascade)
        it.label, it.follows = label, it.follows and after in ("work", "blocked")
        if ended:
            self._child_went(it.parent)

    def _cascade(self, child: Item, trigger: str, outcome: Outcome) -> None:
        for parent in self.above(child.id):
            before, schema = parent.role, self.schema(parent.id)
            follows = schema is None or schema.follows_children
            if child.role == "work" and parent.role == "queue":
                self._change(parent, "work", "in-progress", cascade=True)
            elif child.role == "terminal" and parent.role != "terminal" and follows and self._all_ended(parent.id):
                if missing := self.missing(parent.id):
                    outcome.cascades.append(Change(parent.id, before, "terminal", tuple(missing)))
                    return
                self._change(parent, "terminal", "done", cascade=True)
            elif trigger == "reopen" and parent.role == "terminal":
                self._change(parent, "work", "in-progress", cascade=True)
                trigger = ""  # the parent came to work: ancestors in queue follow, terminal ones do not
            else:
                return
            outcome.cascades.append(Change(parent.id, before, parent.role))
            child = parent

    def _all_ended(self, item: str) -> bool:
        return all(child.role == "terminal" for child in self.children(item))

    # --- trees

    def tree_refusal(self, parent: str | None, tree: Tree) -> str:
        """The code with which a whole tree is rejected; '' if it was created, with its notes."""
        apart = Model(self.schemas)
        apart.items = tree.items
        declared = {(ref, need["key"]): need["role"] for ref in tree.items for need in apart.expected(ref)}
        if apart.link(tree.edges) or any(declared.get(note[:2], note[2].role) != note[2].role for note in tree.notes):
            return "VALIDATION_ERROR"
        if parent is not None and parent not in self.items:
            return "RESOURCE_NOT_FOUND"
        if parent is not None and self.depth(parent) + 2 > MAX_DEPTH:
            return "VALIDATION_ERROR"
        for ref, key, note in tree.notes:
            tree.items[ref].notes[key] = note
        for (ref, key), role in declared.items():
            if tree.blank:
                tree.items[ref].notes.setdefault(key, Note(role))
        return ""

    def below(self, item: str) -> list[str]:
        return [each for child in self.children(item) for each in (child.id, *self.below(child.id))]

    def blocked_by(self, *items: str) -> set[str]:
        return {edge.blocked for edge in self.edges if edge.type != "RELATES_TO" and edge.blocker in items}

    def complete(self, order: list[str], trigger: str, agent: str) -> list[dict[str, Any]]:
        """The expected results of complete_tree; a reason is a part of the actual one."""
        skipped: set[str] = set()
        results = []
        for item in order:
            problem, spreads = self._obstacle(item, trigger, agent, item in skipped)
            if spreads:
                skipped |= self.blocked_by(item)
            if not problem:
                self._change(self.items[item], "terminal", LABELS[trigger])
            done = {"applied": True, "trigger": trigger, "statusLabel": LABELS[trigger]}
            title = self.items[item].shown["title"]
            results.append({"itemId": item, "title": title, **({"applied": False, **problem} if problem else done)})
        return results

    def _obstacle(self, item: str, trigger: str, agent: str, skipped: bool) -> tuple[dict[str, Any], bool]:
        """Why an item cannot be ended, and whether its dependents are skipped too."""

        def skip(reason: str) -> dict[str, Any]:
            return {"skipped": True, "skippedReason": reason}

        it = self.items[item]
        if skipped:
            return skip("dependency gate failed"), True
        if it.role == "terminal":
            return skip("already terminal"), False
        if it.live and it.holder != agent:
            return skip("claimed by a different agent") | {"errorCode": "not_claim_holder"}, True
        if trigger == "cancel":
            return {}, False
        if it.role == "blocked":
            return skip("Cannot transition"), False
        if blockers := self.waits_for(item):
            return skip(f"{len(blockers)} blocking dependencies are not satisfied"), True
        missing = self.missing(item)
        return ({"gateErrors": [f"missing: {key}" for key in missing]}, True) if missing else ({}, False)

    # --- get_next_status

    def status(self, item: str) -> dict[str, Any]:
        """Without the blockers, and without reason and suggestion."""
        it, schema = self.items[item], self.schema(item)
        if it.role == "terminal":
            return {"recommendation": "Terminal", "currentRole": it.role}
        if it.role == "blocked" or self.waits_for(item):
            return {"recommendation": "Blocked", "currentRole": it.role}
        phases = FORWARD if it.role == "review" or (schema and schema.has_review) else ("queue", "work", "terminal")
        return {
            "recommendation": "Ready",
            "currentRole": it.role,
            "nextRole": self._target(it, "start"),
            "trigger": "start",
            "progressionPosition": f"{phases.index(it.role) + 1}/{len(phases)}",
        }

    # --- claims

    def claim(
        self,
        agent: str,
        wanted: list[tuple[str, int | None]],
        granted: int = 0,
        releases: Sequence[tuple[str, int | None]] = (),
    ) -> tuple[list[str], dict[int, str]]:
        """Outcomes of claims; the one that succeeds is placed. ``original`` is left for the caller to fill.

        Args:
            granted: the fence that the server reported, which depends on its clock.
            releases: of the same call. Those of the item that is given up are made, and their outcomes returned by
                their number.
        """
        outcomes = [self._judge(agent, item, fence) for item, fence in wanted]
        winners = [number for number, outcome in enumerate(outcomes) if outcome == "success"]
        for number in winners[:-1]:
            outcomes[number] = "superseded"
        made: dict[int, str] = {}
        if winners:
            winner = self.items[wanted[winners[-1]][0]]
            if winner.holder != agent:
                ours = {it.id for it in self.items.values() if it.holder == agent}
                made = {n: self.release(agent, *one) for n, one in enumerate(releases) if one[0] in ours}
            self._acquire(agent, winner, granted)
        return outcomes, made

    def _judge(self, agent: str, item: str, fence: int | None) -> str:
        it = self.items.get(item)
        if it is None:
            return "not_found"
        if it.role == "terminal":
            return "terminal_item"
        if it.live and it.holder != agent:
            return "already_claimed"
        if agent in self.drained and not it.live:
            return "agent_draining"
        mine = it.holder == agent and fence == it.fence
        return "stale_fence" if fence is not None and not mine else "success"

    def take(self, agent: str, granted: int) -> tuple[str, str, bool] | None:
        """A claim of the best offered item: its id, its role, and whether it was abandoned; None: there is none."""
        found = [
            it
            for it in self.items.values()
            if (it.left or ((it.role == "queue" or self.comes_after(it)) and not it.live))
            and not self.waits_for(it.id)
            and not self.waits_for_children(it)
            and it.suits(agent, self.able.get(agent, ()))
            and not any(self.holds(each) and each.holder != agent for each in self.above(it.id))
        ]
        if not found:
            return None
        best = min(found, key=lambda it: (self.rank(it)[0], it.role == "queue", *self.rank(it)))
        result = best.id, best.role, best.left
        self._acquire(agent, best, granted, by_id=False)
        return result

    def _acquire(self, agent: str, it: Item, granted: int, by_id: bool = True) -> None:
        for other in self.items.values():
            if other.holder == agent and other is not it:
                other.unclaim()
        it.follows = False
        if it.live:
            return
        it.fence = max(it.fence + 1, granted)
        it.original = it.original if it.holder == agent else ""
        it.acquire(agent, by_id=by_id)

    def release(self, agent: str, item: str, fence: int | None, reason: str = "") -> str:
        it = self.items.get(item)
        if it is None:
            return "not_found"
        if it.holder != agent:
            return "not_claimed_by_you"
        if fence is not None and fence != it.fence:
            return "stale_fence"
        if it.live:
            self._end(it, reason)
        it.unclaim()
        return "success"

    def expire(self, it: Item, original: str) -> None:
        """The item's claim ends by time."""
        it.original = original
        self._end(it, "time")

    def _end(self, it: Item, reason: str) -> None:
        it.end(reason, self.most_attempts)
        it.label = "quarantined" if it.held == "quarantine" else it.label

    # --- recommendations

    def next(self, role: str, parent: str | None, limit: int, include_claimed: bool) -> list[tuple[str, bool]]:
        """Ids, best first, and whether they are claimed. Nothing claimed or below a claimed item is offered, unless
        the caller names the parent."""

        def shielded(it: Item) -> bool:
            return parent is None and any(map(self.holds, self.above(it.id)))

        found = [
            it
            for it in self.items.values()
            if it.role == role
            and it.held != "quarantine"
            and not (it.requires or it.assignee)
            and (parent is None or it.parent == parent)
            and not self.waits_for(it.id)
            and (include_claimed or not (it.live or shielded(it)))
        ]
        found.sort(key=self.rank)
        return [(it.id, it.live) for it in found[:limit]]

    @staticmethod
    def rank(it: Item) -> tuple[int, int, str, str]:
        """The default order."""
        return PRIORITIES.index(it.shown["priority"]), it.shown["complexity"] or 11, it.created, it.id

    @staticmethod
    def comes_after(it: Item) -> bool:
        """Whether it is offered in work because its children have ended."""
        return it.follows and it.role == "work"

    @staticmethod
    def holds(it: Item) -> bool:
        """Whether its claim keeps others from what is below it."""
        return it.live and it.role != "terminal"
