"""Lists of tasks go round: what is exported is a plan and an import, and either makes the same again."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from coordinator.client import Fleet
from coordinator.interchange.exporting import read_project
from coordinator.interchange.formats import markdown
from coordinator.interchange.importing import Import
from coordinator.interchange.mapping import Mapping_, apply_mapping
from coordinator.interchange.shaping import shape
from tests.support.fleets import RunningFleet

pytestmark = pytest.mark.anyio
SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.chaos) for seed in range(3, 40))]
TITLES = [
    "Build", "a #tag !high", "(after r1)", "f(x) (due: +4w)", r"\#1 ends \\", "#", "<!-- fleet:x -->", "[x] done",
    "a  b\tc", "Gr\u00fc\u00dfe \u2028 \u200d", "1. one", "(see: docs)", "# head ##", "(summary: \"", "`code`", "!",
]  # fmt: skip
TEXTS = [
    "", "One line.", "- [ ] no task\n- detail\n1. [x] none\n\n    code\n", "```\n- [ ] a\n```\n# head",
    "~~~ unclosed\n- [ ] b", r"\- [ ] a backslash" + "\n\\```\n\ttab  \n   ", "<<<<<<< HEAD\n(after: x) #t",
]  # fmt: skip
FIELDS: list[dict[str, Any]] = [
    {"dueAt": "2030-01-31T12:00:00Z", "notBefore": "2029-01-31T12:00:00Z"},
    {"recurs": {"cron": "0 9 * * MON-FRI"}, "dueAt": "+2h"},
    {"recurs": {"cron": "@daily", "timeZone": "Europe/Berlin", "missed": "all", "overlap": "allow"}},
    {"resources": [{"key": "gpu"}, {"key": "repo/app", "mode": "shared"}]},
    {"budget": {"costMicroUsd": 2_500_001, "tokens": 9, "wallMs": 5_400_001}},
    {"type": "bug (odd)", "complexity": 7, "requires": ["gpu", "linux"], "traits": "needs-review,x"},
    {"maxAttempts": 0, "retryBackoffSeconds": 30, "requiresVerification": True, "assignee": "ann/1"},
    {"summary": "Short (so (nested)) \"said\"\nin two lines <!-- fleet:y -->"},
    {"container": True},
    {"container": True, "type": "heading"},
]  # fmt: skip
ROLES: list[dict[str, Any]] = [
    {}, {}, {}, {"role": "blocked"}, {"role": "terminal"}, {"role": "terminal", "statusLabel": "cancelled"},
    {"statusLabel": "in-progress"}, {"priority": "high"}, {"priority": "low", "tags": "a/b,2024,x.y"},
]  # fmt: skip


async def grow(fleet: Fleet, seed: int, roots: int) -> None:
    """Makes random trees."""
    made: list[tuple[str, int, tuple[int, ...]]] = []
    """Ids, depths, and the numbers of those above and of the item itself."""
    chance = random.Random(seed)
    for number in range(25):
        above = None if number < roots else chance.choice([one for one in made if one[1] < 3])
        given = {
            "title": chance.choice(TITLES),
            "description": chance.choice(TEXTS),
            **({"requires": ["gpu"]} if number % 3 == 0 else {}),
            **({"parentId": above[0]} if above else {}),
            **(chance.choice(FIELDS) if chance.random() < 0.5 else {}),
            **chance.choice(ROLES),
        }
        answer = await fleet.call("manage_items", {"operation": "create", "items": [given]})
        assert not answer["failed"], answer
        path = (*(above[2] if above else ()), number)
        made.append((answer["items"][0]["id"], len(path) - 1, path))
    begun = [{"itemId": item, "trigger": "start"} for item, _, _ in chance.sample(made, 5)]
    await fleet.call("advance_item", {"transitions": begun})  # those that can be
    # Each waits for some that can end before it: parents end after what is below them.
    order = [item for item, _, path in sorted(made, key=lambda one: (*one[2], 99))]
    pairs = {tuple(sorted(chance.sample(range(25), 2))) for _ in range(20)}
    edges = [{"fromItemId": order[one], "toItemId": order[after]} for one, after in pairs]
    answer = await fleet.call("manage_dependencies", {"operation": "create", "dependencies": edges})
    assert answer["created"] == len(edges), answer


async def exported(fleet: Fleet) -> str:
    return "\n".join(markdown.write(await read_project(fleet, "markdown")))


def unnamed(text: str) -> str:
    """A list with the identities of its tasks counted."""
    names: dict[str, str] = {}
    for found in re.findall(r"<!-- fleet:([0-9a-f-]{36}) -->", text):
        names.setdefault(found, f"id-{len(names)}")
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", lambda found: names.get(found[0], found[0]), text)


def other(running: RunningFleet, named: str) -> Fleet:
    """The same fleet, for another project."""
    return Fleet(running.state.base_url, project=f"{named}-2")


@pytest.mark.parametrize("seed", SEEDS)
async def test_an_exported_tree_is_a_plan_of_the_same(
    running: RunningFleet, fleet: Fleet, named: str, tmp_path: Path, seed: int
) -> None:
    await grow(fleet, seed, 1)
    file = tmp_path / "list.md"
    file.write_text(await exported(fleet))
    async with other(running, named) as second:
        await second.plan(file)
        assert unnamed(await exported(second)) == unnamed(file.read_text())


@pytest.mark.parametrize("seed", SEEDS)
async def test_exported_trees_are_an_import_of_the_same(
    running: RunningFleet, fleet: Fleet, named: str, seed: int
) -> None:
    await grow(fleet, seed, 3)
    text = await exported(fleet)
    for target in (other(running, named), other(running, named), Fleet(running.state.base_url, project=named)):
        async with target as into:
            source = markdown.read(text.encode())
            apply_mapping(source, markdown.STATES, Mapping_(), None)
            shape(source)
            assert (source.losses(), source.remarks) == ([], [])
            report = await Import(into, "markdown").run(source.records)
            assert report.refused == []
            assert await exported(into) == text
