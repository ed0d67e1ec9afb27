"""Plans: what is read, what is refused, and what the fleet has then."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.client import Fleet, Invalid, NotFound, Refused, calls
from coordinator.client.calls import away_seconds
from coordinator.client.plans import plan
from tests.client.backlog import add, notes, seen
from tests.client.plans import FLOW, RELEASE
from tests.client.scripted import Scripted, answer, refusal

pytestmark = pytest.mark.anyio
YAML = """
title: Release 2
children:
  - {ref: build, title: Build, tags: "ci,fast"}
  - {ref: notes, title: Write notes, after: [build], notes: {style: short}}
  - {title: Publish, after: [build, notes]}
"""
MARKDOWN = """# Release 2
- [ ] Build #ci #fast (ref: build)
- [ ] Write notes (ref: notes) (after: build)
1. Publish (after: build, write notes)
"""


def markdown(text: str) -> Any:
    """The mapping of a list of tasks in the file list.md."""
    return plan.Text(text, "list.md", markdown=True).mapping()


def shape(given: Any) -> tuple[list[tuple[str, str, list[str]]], set[tuple[str, str]]]:
    found = plan.read(given)
    nodes = [(node.ref, node.fields["title"], (node.fields.get("tags") or "").split(",")) for node in found.root.all()]
    return nodes, set(found.edges)


def test_all_forms_of_a_plan_mean_the_same(tmp_path: Path) -> None:
    (tmp_path / "release.yaml").write_text(YAML)
    (tmp_path / "release.md").write_text(MARKDOWN)
    expected = shape(RELEASE)
    assert expected == (
        [("root", "Release 2", [""]), ("build", "Build", ["ci", "fast"]), ("notes", "Write notes", [""]),
         ("3", "Publish", [""])],
        {("build", "notes"), ("build", "3"), ("notes", "3")},
    )  # fmt: skip
    assert shape(tmp_path / "release.yaml") == expected
    assert shape(str(tmp_path / "release.md")) == expected


def test_a_task_list_has_levels_text_and_order() -> None:
    text = """
Intro.

* [ ] One !high #a/b
  More about it.

      indented

  - [x] Below
    ```
    - [ ] no task
    ```
1) First
2) Second
"""
    assert markdown(text) == {
        "title": "list",
        "description": "Intro.",
        "children": [
            {
                "title": "One",
                "priority": "high",
                "tags": ["a/b"],
                "description": "More about it.\n\n    indented",
                "children": [{"title": "Below", "done": True, "description": "```\n- [ ] no task\n```"}],
            },
            {"title": "First", "ref": "step 1"},
            {"title": "Second", "after": ["step 1"]},
        ],
    }


def test_a_list_has_states_marks_and_headings() -> None:
    text = """
# Phase 1 #ci
- [~] Ask !HIGH
- [/] Write #docs to all (complexity: 3) (summary: "a (b (c))") <!-- fleet:1a2b -->
  - no task, as it is below an identity
- [!] Tell \\#1 (after 1a2b) (after: ask)
## Part
1. [x] Over (ref: over)
# Notes
Odds and ends.
# Phase 2
- [-] Ship (after: over, Tell #1)
"""
    ask = {"title": "Ask", "priority": "high", "done": True, "statusLabel": "cancelled"}
    write = {"title": "Write to all", "ref": "1a2b", "tags": ["docs"], "statusLabel": "in-progress", "complexity": "3"}
    write |= {"summary": "a (b (c))", "description": "- no task, as it is below an identity"}
    tell = {"title": "Tell #1", "blocked": True, "blockers": ["1a2b"], "after": ["ask"]}
    part = {"title": "Part", "type": "heading", "container": True, "done": True}
    ship = {"title": "Ship", "done": True, "statusLabel": "cancelled", "after": ["over", "Tell #1"]}
    heading = {"type": "heading", "container": True}
    assert markdown(text) == {
        "title": "list",
        "description": "# Notes\nOdds and ends.",
        "children": [
            {
                "title": "Phase 1",
                "tags": ["ci"],
                **heading,
                "children": [ask, write, tell, {**part, "children": [{"title": "Over", "ref": "over", "done": True}]}],
            },
            {"title": "Phase 2", "done": True, **heading, "children": [ship]},
        ],
    }
    told = {"title": "A", "description": "intro\n\nmore", "children": [{"title": "b"}]}
    assert markdown("intro\n# A\nmore\n- [ ] b") == told
    exported = "# A <!-- fleet:1 -->\n- [ ] b <!-- fleet:2 -->"
    assert markdown(exported) == {"title": "A", "ref": "1", **heading, "children": [{"title": "b", "ref": "2"}]}
    assert markdown("- [ ] b <!-- fleet:2 -->\n  - [ ] c") == {"title": "b", "ref": "2", "children": [{"title": "c"}]}
    assert markdown("- [ ] b\n") == {"title": "list", "children": [{"title": "b"}]}
    assert markdown("# A #1\n\nWhy.\n") == {"title": "A #1", "description": "Why."}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- [ ] a\n- [?] b\n", r"line 2: \[\?\] is no state: a box has one of ' /!x~-'"),
        ("- [ ] a\n- [ ] b (due: +1h) (due: +2h)\n", r"line 2 has \(due: \+2h\) besides another such mark"),
        ("- [ ] a\n<<<<<<< HEAD\n- [x] b\n", "line 2 begins a merge conflict"),
        ("- [ ] a\n  - [ ] b (after: a)\n", r"list\.md:[12]: plan.* wait for each other, or for what they are part of"),
        ("- [ ] a\n- [ ] b (after 1a2b)\n", r"list\.md:2: plan\.children\[1\]\.after: there is no '1a2b'"),
        ("- [ ] a (complexity: much)\n", r"list\.md:1: plan\.children\[0\]\.complexity: must be a whole number"),
        ("- [ ] a (container: maybe)\n", r"list\.md:1: plan\.children\[0\]\.container: must be true or false"),
        ("- [ ] a <!-- fleet:1 -->\n- [ ] b <!-- fleet:1 -->\n", r"list\.md:2: plan\.children\[1\]\.ref: '1' is used"),
    ],
)
def test_a_wrong_list_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        plan.read(plan.Text(text, "list.md", markdown=True))


@given(st.lists(st.tuples(st.integers(0, 8), st.text("ab #!()x:[]-1.`", max_size=12))))
def test_any_text_is_a_task_list(lines: list[tuple[int, str]]) -> None:
    text = "\n".join(" " * indent + line for indent, line in lines)
    try:
        found = markdown(text)
    except Invalid as error:
        assert re.search(r"line \d+: \[.\] is no state", error.message)  # noqa: PT017
        return
    assert found["title"]
    waiting = [found]
    while waiting:
        one = waiting.pop()
        assert one["title"].strip() == one["title"]
        waiting += one.get("children", [])


def test_no_edge_says_that_a_parent_waits_for_its_children() -> None:
    found = plan.read(
        {
            "title": "t",
            "after": "a",
            "children": [{"title": "a", "children": ["b", {"title": "c", "after": "b"}]}, {"title": "d", "after": "c"}],
        }
    )
    named = {node.ref: node.fields["title"] for node in found.root.all()}
    assert {(named[one], named[other]) for one, other in found.edges} == {("b", "c"), ("c", "d")}


def test_what_is_below_an_item_waits_with_it() -> None:
    text = """
1. Build
   - Fetch
2. Write
   - Collect
     - Ask
   - [x] Choose
   - Order (after: Choose)
   - Polish (after: Collect)
"""
    found = plan.read(markdown(text))
    named = {node.ref: node.fields["title"] for node in found.root.all()}
    edges = {(named[one], named[other]) for one, other in found.edges}
    assert {other for one, other in edges if one == "Build"} == {"Write", "Collect", "Ask", "Choose", "Order"}
    assert ("Build", "Fetch") not in edges


def test_a_task_is_a_step_by_its_number_only() -> None:
    found = markdown("1. Build\n- Build\n1. Ship\n   1. a\n2. Tell")["children"]
    assert [one.get("after") for one in found] == [None, None, None, [found[2]["ref"]]]


def test_fences_end_with_their_own_kind() -> None:
    found = markdown("\ufeff- a\n  ````\n  ```\n  - no\n  ````\n- b\n  ```js``` said\n- c"[1:])["children"]
    assert [one["title"] for one in found] == ["a", "b", "c"]
    assert found[0]["description"] == "````\n```\n- no\n````"


def test_long_lines_and_lists_take_no_square_of_time() -> None:
    text = f"- a{' ' * 200_000}x\n- b{' #t' * 20_000}\n" + "  text\n" * 50_000 + "1. step\n" * 5_000
    found = markdown(text)["children"]
    assert (len(found[1]["tags"]), len(found)) == (20_000, 5_002)


@pytest.mark.parametrize(
    ("children", "said"),
    [
        ([{"titel": "x"}], r"plan\.children\[0\]\.titel: is unknown; did you mean 'title'"),
        ([{"ref": "x"}], r"plan\.children\[0\]\.title: must be a text"),
        ([3], r"plan\.children\[0\]: must be a mapping"),
        ("ab", r"plan\.children: must be a list"),
        ([{"title": "a", "tags": 3}], r"tags: must be a list of texts"),
        ([{"title": "a", "notes": ["x"]}], r"notes: must be a mapping"),
        ([{"title": "a", "after": ["bb"]}, "b"], r"there is no 'bb'; did you mean 'b'"),
        ([{"title": "a", "after": "b"}, "b", "B"], "2 items have the title 'b'"),
        ([{"title": "a", "ref": "1"}, {"title": "b", "ref": "1"}], r"children\[1\]\.ref: '1' is used twice"),
        ([{"title": "a", "after": "b"}, {"title": "b", "after": "a"}], "wait for each other"),
        ([{"title": "a", "ref": ["x"]}], r"ref: must be a text"),
        ([{"title": "a", "done": "no"}], r"done: must be true or false"),
        ([{"title": "a", "done": True, "blocked": True}], r"blocked: must be false: it is done"),
        ([{"title": "a", "after": "root"}], "what they are part of: root -> a -> root"),
        ([{"title": "a", "children": [{"title": "b", "children": [{"title": "c", "children": ["d"]}]}]}], "too deep"),
    ],
)
def test_a_wrong_plan_is_refused_with_its_place(children: Any, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        plan.read({"title": "root", "children": children})


@pytest.mark.parametrize("text", ["a: [", "title: 2026-99-99", "title: !!int x", "[" * 600])
def test_what_is_not_yaml_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.yaml").write_text(text)
    with pytest.raises(Invalid, match="is not YAML"):
        plan.read(tmp_path / "plan.yaml")


def test_a_wrong_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("\ufefftitle: a\nchildren: [{title: b, ref: 1}, {title: c, after: 1}]")
    assert ("1", "2") in plan.read(tmp_path / "plan.yaml").edges
    (tmp_path / "plan.yaml").write_text("- a")
    with pytest.raises(Invalid, match="must be a mapping"):
        plan.read(tmp_path / "plan.yaml")


async def work_off(fleet: Fleet, **selection: Any) -> list[str]:
    """Does what is offered; returns the titles in order."""
    done = []
    async for job in fleet.jobs(wait=False, **selection):
        async with job:
            done.append(job.title)
            await job.done({"of": job.title})
    return done


async def test_a_planned_tree_is_worked_off_in_order(fleet: Fleet) -> None:
    tree = await fleet.plan(RELEASE)
    finished = asyncio.create_task(tree.finished())
    assert await notes(fleet, tree.ids["notes"]) == {"style": "short"}
    assert await work_off(fleet) == ["Build", "Write notes", "Publish"], "the root is offered to nobody"
    async with asyncio.timeout(10):
        assert (await finished)["terminal"] == 3
    assert await tree.results() == {"build": {"of": "Build"}, "notes": {"of": "Write notes"}, "3": {"of": "Publish"}}
    assert (await seen(fleet, tree.id))["role"] == "terminal"
    again = fleet.tree(tree.id)
    assert await again.results() == {tree.ids[ref]: value for ref, value in (await tree.results()).items()}


async def test_events_of_a_tree_end_with_it(fleet: Fleet) -> None:
    tree = await fleet.plan({"title": "t", "children": ["a"]})
    events = tree.events(["item.transition"], after="oldest")
    first = asyncio.ensure_future(anext(events))
    await work_off(fleet)
    async with asyncio.timeout(20):
        begun = await first
    assert begun["data"]["trigger"] == "start"
    assert [event["data"]["to"] async for event in events] == ["work", "terminal", "terminal"]
    later = [event["data"]["to"] async for event in tree.events("item.transition", after=begun["cursor"])]
    assert later == ["work", "terminal", "terminal"]
    with pytest.raises(Invalid, match="no kind 'a b"):
        await anext(tree.events("a b\r\nx: y"))


async def test_events_of_a_tree_end_with_its_deletion_and_go_on_after_a_move(fleet: Fleet) -> None:
    above, other = await add(fleet, "above", "other")
    tree = await fleet.plan({"title": "t", "children": ["a"]})
    async with asyncio.timeout(60):
        events = tree.events("item.*", after="oldest")
        assert [(await anext(events))["name"] for _ in range(2)] == ["item.create"] * 2
        following = asyncio.ensure_future(anext(events))
        for parent in (above, other):
            moved = [{"id": tree.id, "parentId": parent}]
            await fleet.call("manage_items", {"operation": "update", "items": moved})
            event = await following
            while event["data"]["rootId"] != parent:
                event = await anext(events)
            following = asyncio.ensure_future(anext(events))
        await fleet.call("manage_items", {"operation": "delete", "ids": [tree.id], "recursive": True})
        rest = [await following, *[event async for event in events]]
        assert [event["name"] for event in rest[-2:]] == ["item.delete"] * 2
        cursor, single = rest[-1]["cursor"], await fleet.plan({"title": "s", "children": ["b"]})
        events = single.events("item.*", after=cursor)
        assert (await anext(events))["name"] == "item.create"
        await fleet.call("manage_items", {"operation": "delete", "ids": [single.id], "recursive": True})
        assert [event["name"] async for event in events][-2:] == ["item.delete"] * 2
        inner = fleet.tree((await add(fleet, "i", parentId=above))[0])
        await fleet.call("manage_items", {"operation": "delete", "ids": [inner.id]})
        for gone, first in ((single, "item.create"), (inner, "item.create")):  # by who comes back with a cursor
            names = [event["name"] async for event in gone.events("item.*", after=cursor)]
            assert (names[0], names[-1]) == (first, "item.delete")
            with pytest.raises(NotFound):
                await anext(gone.events())
        with pytest.raises(NotFound):
            await anext(fleet.tree(str(uuid4())).events(after=cursor))


async def test_a_deep_or_large_plan_is_made_in_stages(fleet: Fleet) -> None:
    deep = {
        "title": "deep",
        "children": [
            {"title": "a", "children": [{"title": "a1", "notes": {"k": "v"}}, {"title": "a2", "done": True}]},
            {"title": "b", "after": "a", "children": [{"title": f"b{n}"} for n in range(60)]},
        ],
    }
    (above,) = await add(fleet, "above", role="work")
    tree = await fleet.plan(deep, parent=above)
    assert len(tree.ids) == 65
    assert (await seen(fleet, tree.ids["1.2"]))["role"] == "terminal"
    assert await notes(fleet, tree.ids["1.1"]) == {"k": "v"}
    async with await anext(fleet.jobs(wait=False)) as job:
        assert job.title == "a1"
        await job.done()
    assert (await seen(fleet, tree.ids["1"]))["role"] == "terminal"
    assert sorted(await work_off(fleet, ancestor=tree.id)) == sorted(f"b{n}" for n in range(60))
    assert (await tree.finished())["terminal"] == 64
    assert (await seen(fleet, above))["role"] == "terminal"


async def test_an_item_with_very_many_children_is_offered_to_nobody(fleet: Fleet) -> None:
    tree = await fleet.plan({"title": "wide", "priority": "high", "children": [f"c{n}" for n in range(601)]})
    assert (await seen(fleet, tree.id))["role"] == "queue"
    looked = {"itemId": tree.id, "waitFor": "tree_terminal", "waitMs": 0}
    assert (await fleet.call("get_context", looked))["waited"]["counts"]["queue"] == 601
    async with await anext(fleet.jobs(wait=False)) as job:
        assert job.title == "c0"
        await job.done()


async def test_waits_pause_when_the_fleet_has_no_room(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[int] = []

    def pause(failures: int) -> float:
        pauses.append(failures)
        return 0.0

    monkeypatch.setattr(calls, "away_seconds", pause)
    scripted.steps = [refusal("draining", "shedding", 120_000)] * 3 + [answer({"waited": {"met": True}})]
    async with Fleet(scripted.url, agent="me") as fleet:
        await fleet.tree("00000000").finished()
    assert pauses == [0, 1, 2]
    assert 0.5 <= away_seconds(0) <= 1.0
    assert away_seconds(2_000) <= 30


async def test_all_items_of_a_large_tree_are_listed(fleet: Fleet) -> None:
    (root,) = await add(fleet, "root")
    items = await add(fleet, *(str(n) for n in range(205)), parentId=root)
    below = await add(fleet, "below", parentId=items[3])
    assert [item["id"] async for item in fleet.tree(root).items()] == [*items, *below]


async def test_a_plan_that_the_fleet_refuses_leaves_nothing(fleet: Fleet) -> None:
    wrong = {"title": "x", "children": [{"title": "a", "children": [{"title": "b", "tags": "A B"}]}]}
    with pytest.raises(Invalid, match=r"plan\.children\[0\]\.children\[0\].tags"):
        await fleet.plan(wrong)
    wrong = {"title": "x", "children": [{"title": "a", "children": [{"title": "b", "notes": {"": "x"}}]}]}
    with pytest.raises(Invalid, match=r"notes: .*key"):
        await fleet.plan(wrong)
    with pytest.raises(Invalid, match="tags"):
        await fleet.plan({"title": "x", "children": [{"title": "a", "tags": "A B"}]})
    found = await fleet.call("query_items", {"operation": "search"})
    assert found["items"] == []


async def test_a_tree_can_be_cancelled_and_must_exist(fleet: Fleet) -> None:
    tree = await fleet.plan(RELEASE)
    await tree.cancel()
    assert (await tree.finished())["terminal"] == 3
    with pytest.raises(NotFound):
        await fleet.tree("dead0000").finished()
    with pytest.raises(NotFound):
        await anext(fleet.jobs(until=fleet.tree("dead0000")))


async def test_jobs_end_with_the_tree_that_they_are_for(fleet: Fleet) -> None:
    tree = await fleet.plan(RELEASE)

    async def worker() -> int:
        done = 0
        async for job in fleet.jobs(ancestor=tree.id, until=tree):
            async with job:
                await job.done()
                done += 1
        return done

    async with asyncio.timeout(20):
        assert await worker() == 3


async def test_a_flow_runs_with_its_approvals(fleet: Fleet) -> None:
    run = await fleet.flow("triage", FLOW)
    async for gate in run.approvals():
        assert gate["name"] == "gate"
        await run.approve(gate["id"])
        with pytest.raises(Refused, match="step is"):
            await run.approve(gate["id"])
    assert "recommendations" in await run.result()
    assert [step["name"] async for step in fleet.run(run.id).steps()] == ["look", "gate", "end"]


async def test_a_flow_that_ends_otherwise_is_refused(fleet: Fleet) -> None:
    run = await fleet.flow("triage", FLOW)
    assert await run.cancel()
    assert not await run.cancel()
    with pytest.raises(Refused, match="cancelled"):
        await run.result()


def test_both_forms_can_say_when(tmp_path: Path) -> None:
    listed, mapped = tmp_path / "plan.md", tmp_path / "plan.yaml"
    listed.write_text(
        "# R\n- [ ] a (due: +2d) (not before: 2026-12-01T09:00:00+00:00)\n- [ ] b (recurs: 0 9 * * MON-FRI)\n"
    )
    mapped.write_text(
        "title: R\nchildren:\n  - {title: a, dueAt: +2d, notBefore: 2026-12-01T09:00:00Z}\n"
        "  - {title: b, recurs: 0 9 * * MON-FRI}\n"
    )
    found = [[node.fields for node in plan.read(path).root.all()] for path in (listed, mapped)]
    assert found[0] == found[1]
    assert found[0][1:] == [
        {"title": "a", "dueAt": "+2d", "notBefore": "2026-12-01T09:00:00+00:00"},
        {"title": "b", "recurs": {"cron": "0 9 * * MON-FRI"}},
    ]
    mapped.write_text("title: R\nnotBefore: 2026-12-01\n")
    with pytest.raises(Invalid, match=r"plan\.notBefore: must be a time with a zone"):
        plan.read(mapped)


def test_both_forms_can_say_what_is_used(tmp_path: Path) -> None:
    listed, mapped = tmp_path / "plan.md", tmp_path / "plan.yaml"
    listed.write_text("# R\n- [ ] a (resources: gpu=2, repo/app=shared) (budget: cost=2.50, tokens=9, time=1.5h)\n")
    mapped.write_text(
        "title: R\nchildren:\n  - title: a\n    resources: [{key: gpu, units: 2}, {key: repo/app, mode: shared}]\n"
        "    budget: {costMicroUsd: 2500000, tokens: 9, wallMs: 5400000}\n"
    )
    found = [[node.fields for node in plan.read(path).root.all()] for path in (listed, mapped)]
    assert found[0] == found[1]
    for wrong in ("gpu=many", "gpu=-1"):
        with pytest.raises(Invalid, match=r"plan\.resources: '.*' must be KEY, KEY=UNITS or KEY=shared"):
            plan.read({"title": "R", "resources": wrong})
    for wrong in ("", "cost=", "cost=1m", "tokens=1.5", "time=5", "time=1y", "euros=5", "tokens=9999999999999"):
        with pytest.raises(Invalid, match=r"plan\.budget: '.*' must be cost=DOLLARS, tokens=NUMBER or time=TIME"):
            plan.read({"title": "R", "budget": wrong})


async def test_a_plan_has_containers(fleet: Fleet) -> None:
    tree = await fleet.plan({"title": "R", "children": [{"title": "later", "container": True}, "now"]})
    assert await work_off(fleet) == ["now"]
    assert (await seen(fleet, tree.ids["1"]))["container"] is True


async def test_a_plan_has_resources_budgets_and_times(fleet: Fleet) -> None:
    more = {"resources": "gpu", "budget": "tokens=9", "notBefore": "+1h", "dueAt": "+2h"}
    tree = await fleet.plan({"title": "R", "children": [{"title": "a", **more}, {"title": "b", "recurs": "@daily"}]})
    made = {
        item["title"]: await fleet.call("query_items", {"operation": "get", "id": item["id"]})
        async for item in tree.items()
    }
    assert made["a"]["resources"] == [{"key": "gpu", "mode": "exclusive", "units": 1}]
    assert made["a"]["budget"] == {"tokens": 9}
    assert {"notBefore", "dueAt"} <= made["a"].keys()
    assert made["b"]["recurs"]["cron"] == "@daily"
