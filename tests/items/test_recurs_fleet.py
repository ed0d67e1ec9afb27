"""Recurring items over several front-ends, one of which dies while occurrences are made."""

from __future__ import annotations

import pytest

from coordinator.store import Store
from coordinator.toolsets.items.audit import audit
from tests.items.parked import Fronts
from tests.items.recurrence import age, occurrences
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("after", [0, 10, 30])
async def test_each_is_made_once_although_a_front_end_dies(fronts: Fronts, store: Store, after: int) -> None:
    """After ten hours without any, whenever the one dies that has begun to make them; another one goes on."""
    first, *others = made = [await fronts.make() for _ in range(3)]
    recurs = {"cron": "*/10 * * * *", "missed": "all", "overlap": "allow"}
    item = await first.add("report", recurs=recurs)
    await first.claiming.claims.expire(first.project)
    await age(first, item, 36_000_000)
    for front in made:
        await front.start()
        front.claiming.expiring.expect(front.project, 1)

    async def count() -> int:
        return len(await occurrences(others[0], item))

    async def begun() -> bool:
        return await count() >= after

    async def all_made() -> bool:
        return await count() >= 60

    await wait_until(begun)
    await first.kill()
    await wait_until(all_made)
    found = [one["notBefore"] for one in await occurrences(others[0], item)]
    assert len(found) == len(set(found)) == 60
    await others[1].claiming.claims.expire(first.project)
    assert await count() == 60
    assert (await audit(store, first.project)).differences == []
