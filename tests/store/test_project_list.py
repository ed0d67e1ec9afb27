"""Lists of projects that need background work."""

from __future__ import annotations

import pytest

from coordinator.store import Store, keys
from coordinator.store.projects.lists import NOTED_SECONDS, List, ProjectList

pytestmark = pytest.mark.anyio

KEYS = {"steps": keys.step_projects.key(keys.FLEET), "items": keys.item_projects.key(keys.FLEET)}


@pytest.fixture(params=["steps", "items"])
def what(request: pytest.FixtureRequest) -> List:
    which: List = request.param
    return which


async def age(store: Store, what: List, project: str, seconds: int) -> None:
    """Backdates the note of a project."""
    await store.command("ZINCRBY", KEYS[what], -seconds, project)


async def test_projects_are_listed_by_when_they_were_noted(alone: Store, what: List) -> None:
    projects = ProjectList(alone, what)
    assert await projects.ages() == {}
    for project, seconds in (("b", 200), ("a", 100), ("c", 300)):
        await projects.note(project)
        await age(alone, what, project, seconds)
    ages = await projects.ages()
    assert [*ages] == ["a", "b", "c"]
    assert all(asked <= age < asked + 30 for asked, age in zip((100, 200, 300), ages.values(), strict=True))
    assert [*await projects.ages(250)] == ["a", "b"]
    assert [*await projects.ages(most=1)] == ["a"]


async def test_invalid_project_names_are_not_listed(alone: Store, what: List) -> None:
    projects = ProjectList(alone, what)
    await projects.note("a-b_1")
    for odd in (b"", b"\xff", b"Upper", b"two words", b"-a", b"a" * 64):
        await alone.command("ZADD", KEYS[what], 1, odd)
    assert [*await projects.ages()] == ["a-b_1"]


async def test_lists_are_independent(alone: Store) -> None:
    await ProjectList(alone, "steps").note("one")
    assert await ProjectList(alone, "items").ages() == {}


async def test_a_process_notes_a_project_at_most_once_per_interval(
    alone: Store, what: List, monkeypatch: pytest.MonkeyPatch
) -> None:
    projects = ProjectList(alone, what)
    await projects.note("one")
    await alone.command("DEL", KEYS[what])
    await projects.note("one")
    assert await projects.ages() == {}
    await projects.note("other")
    monkeypatch.setitem(NOTED_SECONDS, what, 0.0)
    again = ProjectList(alone, what)
    await again.note("one")
    await alone.command("DEL", KEYS[what])
    await again.note("one")
    assert [*await again.ages()] == ["one"]


async def test_a_recently_noted_project_is_not_dropped(alone: Store, what: List) -> None:
    projects = ProjectList(alone, what)
    await projects.forget("unknown", 60)
    await projects.note("one")
    await projects.forget("one", 60)
    assert [*await projects.ages()] == ["one"]
    await age(alone, what, "one", 100)
    await projects.forget("one", 60)
    assert await projects.ages() == {}
    # Another process that begins something there notes it again.
    await ProjectList(alone, what).note("one")
    assert [*await projects.ages()] == ["one"]
