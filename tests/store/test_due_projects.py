"""Projects in which something ends by time: noted, and taken by one process each."""

from __future__ import annotations

import pytest

from coordinator.store import Store, keys
from coordinator.store.projects.due import DueProjects

pytestmark = pytest.mark.anyio

PAUSE_MS, LATER_MS = 700, 900_000


async def listed(store: Store) -> float | None:
    """When the project is due, in ms."""
    score = await store.command("ZSCORE", keys.due_projects.key(keys.FLEET), "p")
    return None if score is None else float(score)


async def taken(due: DueProjects) -> tuple[int, int]:
    """Takes the project, which is due; returns the time and until when it is taken."""
    now = (await due.take(PAUSE_MS, 0)).now
    found = await due.take(PAUSE_MS, 1, [("p", now, True)])
    ((project, until),) = found.taken
    assert (project, until) == ("p", found.now + PAUSE_MS)
    return found.now, until


async def test_what_ends_next_is_found_by_the_process_that_looked(alone: Store) -> None:
    due = DueProjects(alone)
    now, until = await taken(due)
    assert (await due.take(PAUSE_MS, 1)).taken == []
    await due.take(PAUSE_MS, 0, finished=[("p", until, now + LATER_MS)])
    assert await listed(alone) == now + LATER_MS
    await due.take(PAUSE_MS, 0, [("p", now + 5000, False)])
    assert await listed(alone) == now + 5000


async def test_a_project_in_which_nothing_ends_is_forgotten(alone: Store) -> None:
    due = DueProjects(alone)
    _, until = await taken(due)
    await due.take(PAUSE_MS, 0, finished=[("p", until, 0)])
    assert await listed(alone) is None


@pytest.mark.parametrize("found", [0, LATER_MS])
async def test_what_is_noted_while_another_process_looks_is_not_missed(alone: Store, found: int) -> None:
    """That process may have looked before it came about."""
    looking, claiming = DueProjects(alone), DueProjects(alone)
    now, until = await taken(looking)
    await claiming.take(PAUSE_MS, 0, [("p", now + 1000, True)])
    await claiming.take(PAUSE_MS, 0, [("p", now + 1000, False)])
    assert (await claiming.take(PAUSE_MS, 1)).taken == []
    await looking.take(PAUSE_MS, 0, finished=[("p", until, found and now + found)])
    assert until - 1 < (await listed(alone) or 0) <= until


async def test_what_has_ended_is_looked_for_unless_somebody_is_about_to(alone: Store) -> None:
    due = DueProjects(alone)
    now, until = await taken(due)
    await due.take(PAUSE_MS, 0, finished=[("p", until, now + LATER_MS)])
    assert [project for project, _ in (await due.take(PAUSE_MS, 1, [("p", now, False)])).taken] == ["p"]
    assert (await due.take(PAUSE_MS, 1, [("p", now, False)])).taken == []


async def test_other_names_are_not_listed(alone: Store) -> None:
    due = DueProjects(alone)
    now = (await due.take(PAUSE_MS, 0)).now
    assert (await due.take(PAUSE_MS, 1, [("a b", now, True), ("!fleet", now, True)])).taken == []
