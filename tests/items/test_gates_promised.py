"""Gates and reads: advance_item does what get_next_status and get_context promise."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.settings import Settings
from coordinator.store import Store
from tests.items.client import Client, Json

KEYS = ("a", "b", "c", "d")
LIFECYCLES = ("auto", "manual", "permanent", "auto-reopen")
TRIGGERS = ("start", "complete", "block", "hold", "resume", "cancel", "reopen")
SENSIBLE = {"terminal": "reopen", "blocked": "resume"}
NOTE_LISTS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "role": st.sampled_from(("queue", "work", "review")),
            "required": st.sampled_from((True, True, True, False)),
            "description": st.sampled_from(("", "what")),
        },
        optional={"guidance": st.sampled_from(("how", "else")), "skill": st.just("a skill")},
    ),
    max_size=4,
    unique_by=lambda note: note["key"],
)
TRAITS = ("t", "u")
SCHEMAS = st.fixed_dictionaries(
    {"notes": NOTE_LISTS},
    optional={
        "lifecycle": st.sampled_from(LIFECYCLES),
        "default_traits": st.lists(st.sampled_from(TRAITS), max_size=2, unique=True),
    },
)
CONFIGS = st.fixed_dictionaries(
    {
        "work_item_schemas": st.fixed_dictionaries({"bug": SCHEMAS}, optional={"task": SCHEMAS, "default": SCHEMAS}),
        "traits": st.fixed_dictionaries({trait: st.fixed_dictionaries({"notes": NOTE_LISTS}) for trait in TRAITS}),
    }
)
ITEMS = st.fixed_dictionaries(
    {
        "role": st.sampled_from(("queue", "queue", "work", "review", "blocked", "terminal")),
        "type": st.sampled_from(("bug", "bug", "task", "none")),
    },
    optional={
        "tags": st.sampled_from(("task", "x,bug")),
        "traits": st.sampled_from(("t", "u,t")),
    },
)
FILLED = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("text", "text", "text", " ")))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "on",
                "on",
                "on",
                "to the end",
                "to the end",
                "fill",
                "fill the parent",
                "reload",
                *TRIGGERS,
                "complete_tree",
            )
        ),
        FILLED,
    ),
    min_size=3,
    max_size=9,
)
"""Events of an item; ``on`` and ``to the end`` depend on its role."""


class Promise:
    """The reads of an item at one moment."""

    def __init__(self, status: Json, context: Json, parent: Json) -> None:
        self.status, self.context, self.parent = status, context, parent
        self.role = status["currentRole"]
        self.phase = context["gateStatus"]["missing"]
        self.all = unfilled(context)

    @classmethod
    async def of(cls, tools: Client, item: str, parent: str) -> Promise:
        status, context = await tools("get_next_status", itemId=item), await tools("get_context", itemId=item)
        promise = cls(status, context, await tools("get_context", itemId=parent))
        promise.must_agree()
        return promise

    def must_agree(self) -> None:
        """The reads agree."""
        gate = self.context["gateStatus"]
        assert self.role == self.context["item"]["role"] == gate["phase"]
        assert gate.get("blockers", []) == self.status.get("blockers", [])
        assert gate["canAdvance"] is (self.status["recommendation"] == "Ready" and not self.phase)
        here = [note for note in self.context["schema"] if note["role"] == self.role]
        assert self.phase == [note["key"] for note in here if note["required"] and not note["filled"]]
        progress = self.context["noteProgress"]
        if progress is not None:
            required = sum(note["required"] for note in here)
            assert progress["remaining"] == len(self.phase)
            assert progress["filled"] + progress["remaining"] == progress["total"] == required
        assert self.status["recommendation"] == (
            "Terminal" if self.role == "terminal" else
            "Blocked" if self.role == "blocked" or "blockers" in self.status else "Ready"
        )  # fmt: skip

    def outcome(self, trigger: str) -> str | list[str]:
        """The new role, the missing notes, or why not."""
        if trigger == "reopen":
            return "queue" if self.role == "terminal" else "refused"
        if self.role == "terminal":
            return "refused"
        if self.role == "blocked":
            if trigger == "resume":
                return "back" if "'resume'" in self.status["suggestion"] else "refused"
            return "terminal" if trigger == "cancel" else "refused"
        if trigger in ("block", "hold"):
            return "blocked"
        if trigger == "resume":
            return "refused"
        if trigger == "cancel":
            return "terminal"
        if "blockers" in self.status:
            return "waits"
        if trigger == "start":
            return self.phase or str(self.status["nextRole"])
        return (trigger == "complete" and self.all) or "terminal"


def unfilled(context: Json) -> list[str]:
    """The keys of all required notes that are missing or blank, of any phase."""
    return [note["key"] for note in context["schema"] if note["required"] and not note["filled"]]


async def take(tools: Client, item: str, parent: str, trigger: str) -> str:
    """Applies a trigger and compares the answer with the promise; returns the outcome."""
    promise = await Promise.of(tools, item, parent)
    expected = promise.outcome(trigger)
    result = await tools.advance(item, trigger)
    after = await Promise.of(tools, item, parent)
    if isinstance(expected, list):
        declared = {note["key"]: note for note in promise.context["schema"]}
        shown = ("key", "role", "description", "guidance", "skill")
        assert result["missingNotes"] == [
            {name: declared[key][name] for name in shown if name in declared[key]} for key in expected
        ]
        assert not result["applied"]
        return "gate"
    if expected in ("refused", "waits"):
        assert not result["applied"]
        assert "missingNotes" not in result
        assert result.get("blockers") == promise.status.get("blockers" if expected == "waits" else "")
        assert after.status == promise.status
        return expected
    assert result["applied"], result
    assert result["newRole"] == after.role
    assert expected in ("back", after.role)
    assert result["expectedNotes"] == [
        {name: value for name, value in note.items() if name != "filled"}
        for note in after.context["schema"]
        if note["role"] == after.role
    ]
    for name in ("guidancePointer", "skillPointer", "noteProgress"):
        assert result.get(name) == after.context.get(name)
    for event in result["cascadeEvents"]:
        assert event["targetRole"] in ("work", "terminal")
        lacks = unfilled(promise.parent) if event["targetRole"] == "terminal" else []
        assert event.get("missingNotes", []) == lacks
        assert event["applied"] is (not lacks)
        assert after.parent["item"]["role"] == (event["previousRole"] if lacks else event["targetRole"])
    return "applied" + (" with a cascade" if result["cascadeEvents"] else "")


async def complete_by_tree(tools: Client, item: str, parent: str) -> str:
    promise = await Promise.of(tools, item, parent)
    expected = promise.outcome("complete")
    (result,) = (await tools("complete_tree", itemIds=[item]))["results"]
    assert result["applied"] is (expected == "terminal")
    errors = [f"missing: {key}" for key in expected] if isinstance(expected, list) else []
    assert result.get("gateErrors", []) == errors
    return "tree"


async def note_down(tools: Client, item: str, bodies: dict[str, str]) -> None:
    """Writes notes; the answer about the item's notes must match the reads."""
    notes = [{"itemId": item, "key": key, "role": "queue", "body": body} for key, body in bodies.items()]
    if notes:
        answer = await tools("manage_notes", operation="upsert", notes=notes)
        context = await tools("get_context", itemId=item)
        names = ("guidancePointer", "skillPointer", "noteProgress")
        assert answer["itemContext"][item] == {name: context[name] for name in names if name in context}


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.mark.timeout(480)  # a failure is shrunk for up to five minutes
def test_advance_item_does_what_the_reads_promise(redis_url: str, project: str, runner: asyncio.Runner) -> None:
    """Random items and notes under random schemas, with reloads in between."""
    store = Store(redis_url, timeout_ms=5000)
    runner.run(store.open())
    tools = Client(store, project)
    seen: Counter[str] = Counter()

    async def play(config: Json, other: Json, fields: Json, parent_type: str, waits: bool, steps: Any) -> None:
        tools.configure(msgspec.convert(config, Settings))
        parent = await tools.add(type=parent_type)
        made = (await tools.create({"title": "t", "parentId": parent, **fields}))["items"][0]
        item = made["id"]
        if waits:
            await tools.link(await tools.add(), item)
        schema = (await Promise.of(tools, item, parent)).context["schema"]
        assert [note | {"filled": False} for note in made["expectedNotes"]] == schema
        for step, bodies in steps:
            if step == "reload":
                tools.configure(msgspec.convert(other, Settings))
                config, other = other, config
            elif step.startswith("fill"):
                await note_down(tools, item if step == "fill" else parent, bodies)
            elif step == "complete_tree":
                seen[await complete_by_tree(tools, item, parent)] += 1
            else:
                forward = SENSIBLE.get(await tools.role(item), "start" if step == "on" else "complete")
                seen[await take(tools, item, parent, step if step in TRIGGERS else forward)] += 1

    @settings(max_examples=75)
    @given(CONFIGS, CONFIGS, ITEMS, st.sampled_from(("bug", "task")), st.sampled_from((False, False, True)), STEPS)
    def check(config: Json, other: Json, fields: Json, parent_type: str, waits: bool, steps: Any) -> None:
        runner.run(play(config, other, fields, parent_type, waits, steps))

    try:
        check()
    finally:
        runner.run(store.close())
    assert min(seen[outcome] for outcome in ("gate", "refused", "waits", "applied", "applied with a cascade")) > 10, (
        seen
    )
