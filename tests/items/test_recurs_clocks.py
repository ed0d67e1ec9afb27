"""Recurring items around changes of clocks: each time is dealt with once, whenever a process looks."""

from __future__ import annotations

import random
import zoneinfo
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import anyio
import pytest

from coordinator.store import Store, keys
from coordinator.store.errors import ScriptFailure
from coordinator.toolsets.items.rules.times.recurrence import PORTION, OccurrencePlan, Recurrence, following, plan
from coordinator.toolsets.items.store.recurring import DueTemplate
from tests.items.attempts import must_be_sound
from tests.items.client import Client
from tests.items.clock_changes import HOUR, changes, counted, local, make_zone, one_of_each
from tests.items.moments import ms, server_time
from tests.items.parked import SOON, Fronts
from tests.items.recurrence import age, occurrences, template
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

AROUND = 26 * HOUR
PARTS = 10
MINUTE, DAY = 60_000, 86_400_000
Zones = Callable[[int, int], ZoneInfo]


def crons(zone: ZoneInfo, change: int, by: int) -> Iterator[str]:
    """Expressions with times in what is left out or comes twice, beside it, and for the days of the change alone."""
    shown = local(change, zone) - timedelta(seconds=max(by, 0) // 2 if by > 0 else by // 2)
    hour, before, day = shown.hour, (shown - timedelta(hours=1)).hour, shown.day
    yield f"{shown.minute} {hour} * * *"
    yield f"45 {hour} * * *"
    yield f"14 {min(before, hour)},{max(before, hour)} * * *"
    yield f"*/20 {hour} * * *"
    yield "*/30 * * * *"
    yield "15 * * * *"
    yield "0 */2 * * *"
    yield "0 0 * * *"
    yield f"*/20 * {day} * *"
    yield f"50 * {(shown - timedelta(days=1)).day} * *"
    yield f"30 0-5 {day} * *"


def must_agree(zone: ZoneInfo, change: int, by: int, seed: int = 7) -> None:
    """Around a change of clocks, what follows any time, and what any restarts make, is as in the model."""
    chance = random.Random(seed)
    for cron in crons(zone, change, by):
        every = [second * 1000 for second in counted(cron, zone, change - AROUND, change + AROUND)]
        found = Recurrence(cron, zone.key)
        at, forward = (change - AROUND) * 1000 - 1, []
        while (at := following(found, at) or 0) and at < (change + AROUND) * 1000:
            forward.append(at)
        assert forward == every, (zone, cron)
        for second in range(change - 3 * HOUR - 8, change + 3 * HOUR, 23 * 60):
            new = next((time for time in every if time > second * 1000), None)
            assert new is None or following(found, second * 1000) == new, (zone, cron, second)
        for missed in ("skip", "one", "all"):
            must_deal_with_each_once(found._replace(missed=missed), every, change * 1000, chance)


def must_deal_with_each_once(found: Recurrence, every: list[int], change: int, chance: random.Random) -> None:
    """Looks at a template a few times around a change of clocks, also twice at once."""
    looks = sorted(change + chance.randrange(-3 * HOUR, 3 * HOUR) * 1000 for _ in range(4))
    dealt = looks[0] - chance.choice((MINUTE, HOUR * 1000, DAY - 4 * HOUR * 1000))
    for look in (now for now in looks for _ in range(2)):
        passed = [time for time in every if dealt < time <= look]
        made: list[int] = []
        while True:
            todo = plan(found, dealt, look)
            made += todo.times
            dealt = todo.dealt
            if len(todo.times) < PORTION:
                break
        wanted = {
            "all": passed,
            "one": passed[-1:],
            "skip": [time for time in passed[-1:] if time >= look - MINUTE],
        }[found.missed]
        assert made == wanted, (found, dealt, look)
        assert todo.look > look
        assert todo.look == next((time for time in every if time > look), todo.look)


@pytest.mark.parametrize(
    "name",
    [
        "Europe/Berlin",
        "America/New_York",
        "Africa/Cairo",  # 24:00 is 23:00 again
        "America/Havana",  # 01:00 is 00:00 again
        "Africa/Casablanca",  # four changes a year
        "Antarctica/Casey",  # by three hours
        "Australia/Lord_Howe",  # by half an hour
    ],
)
def test_each_time_is_dealt_with_once_around_the_last_changes(name: str) -> None:
    zone = ZoneInfo(name)
    last = {by > 0: (change, by) for change, by in changes(zone)}
    assert len(last) == 2
    for change, by in last.values():
        must_agree(zone, change, by)


@pytest.mark.chaos
@pytest.mark.parametrize("part", range(PARTS))
def test_each_time_is_dealt_with_once_around_every_change_of_ten_years(part: int) -> None:
    zones = one_of_each()
    assert len(zones) > 40
    for found, zone in list(zones.items())[part::PARTS]:
        for change, by in found:
            must_agree(zone, change, by, part)


def test_a_clock_of_the_store_that_is_put_back_repeats_no_time() -> None:
    found, dealt = Recurrence("*/10 * * * *"), 1_800_000_000_000
    assert plan(found, dealt, dealt - 3_600_000) == OccurrencePlan([], dealt, dealt + 10 * MINUTE)


@pytest.fixture
def tools(store: Store, project: str) -> Client:
    return Client(store, project)


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[Zones]:
    """Makes zones whose clocks change when a test wants it."""
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([str(tmp_path), *before])
    yield lambda at, by: make_zone(tmp_path, at, by)
    zoneinfo.reset_tzpath(before)


async def look_at(tools: Client, item: str) -> int:
    """When a template is looked at next."""
    return int(await tools.store.command("ZSCORE", keys.recurring.key(tools.project), item.replace("-", "")))


async def expire(tools: Client) -> None:
    """Makes what is due, once: what is looked at again at once does not end."""
    with anyio.fail_after(SOON):
        next_end, now = await tools.claiming.claims.expire(tools.project)
    assert next_end > now


@pytest.mark.parametrize("overlap", ["skip", "allow"])
@pytest.mark.parametrize("missed", ["skip", "one", "all"])
@pytest.mark.parametrize("by", [-HOUR, HOUR], ids=["twice", "gap"])
@pytest.mark.parametrize("hours", [1, 2])
async def test_just_after_the_clocks_have_changed(
    tools: Client, zones: Zones, hours: int, by: int, missed: str, overlap: str
) -> None:
    """Of templates that are made then, and of those whose times have not been dealt with for a while."""
    now = await server_time(tools.store)
    second = now // 1000
    zone = zones(second // 60 * 60 - 300, by)
    shown = local(second, zone) + timedelta(minutes=15 if by < 0 else -35)  # what has come and comes again; left out
    told = sorted((shown - timedelta(hours=n)).hour for n in range(hours))
    cron = f"{shown.minute} {','.join(map(str, told))} * * *"
    every = [one * 1000 for one in counted(cron, zone, second - 4 * HOUR, second + 30 * HOUR)]
    recurs = {"timeZone": zone.key, "missed": missed, "overlap": overlap}
    item = await template(tools, cron, recurs=recurs)
    made: list[int] = []
    dealt = now
    for ago in (0, 20 * MINUTE, 3 * HOUR * 1000):
        if ago:
            await age(tools, item, ago)
            dealt = await server_time(tools.store) - ago
        assert ms((await tools.get(item))["recurs"]["nextAt"]) > await server_time(tools.store)
        passed = [one for one in every if dealt < one <= now and missed != "skip"]
        made += passed[-1:] if missed == "one" else passed[:1] if overlap == "skip" else passed
        for _ in range(3):
            await expire(tools)
        found = await occurrences(tools, item)
        assert [ms(one["notBefore"]) for one in found] == made
        assert await look_at(tools, item) == next(one for one in every if one > now)
        for one in found:
            await tools.delete(one["id"])
        made = []
        await expire(tools)
        assert await occurrences(tools, item) == []
    await must_be_sound(tools)


async def test_front_ends_rest_in_the_hour_that_comes_twice(fronts: Fronts, zones: Zones) -> None:
    made = [await fronts.make() for _ in range(3)]
    first = made[0]
    second = await server_time(first.store) // 1000
    zone = zones(second // 60 * 60 - 300, -HOUR)
    shown = local(second + 900, zone)
    cron = f"{shown.minute} {shown.hour} * * *"
    recurs = {"cron": cron, "timeZone": zone.key, "missed": "all", "overlap": "allow"}
    item = await first.add("daily", recurs=recurs)
    await first.claiming.claims.expire(first.project)
    await age(first, item, 26 * HOUR * 1000)
    for front in made:
        await front.start()
        front.claiming.expiring.expect(front.project, 1)
    looks = counted(cron, zone, second - 26 * HOUR, second + 30 * HOUR)
    next_look = looks[-1] * 1000
    assert len(looks) == 3

    async def rested() -> bool:
        return await look_at(first, item) == next_look

    await wait_until(rested)
    assert [ms(one["notBefore"]) // 1000 for one in await occurrences(first, item)] == looks[:-1]
    before = sum(front.runs["make_occurrences"] for front in made)
    assert 1 <= before <= 12
    for front in made:
        next_end, _ = await front.claiming.claims.expire(front.project)
        assert next_end == next_look
    assert len(await occurrences(first, item)) == 2


@pytest.mark.parametrize(("times", "upto"), [([0], 10), ([-1], 10), ([5, 5], 10), ([7, 6], 10), ([11], 10), ([], -1)])
async def test_the_store_refuses_what_is_not_after_what_was_dealt_with(
    tools: Client, monkeypatch: pytest.MonkeyPatch, times: list[int], upto: int
) -> None:
    item = await template(tools, recurs={"overlap": "allow"})
    inner, key = item.replace("-", ""), keys.item.key(tools.project, item.replace("-", ""))
    recurs, dealt = [text.decode() for text in await tools.store.command("HMGET", key, "rc", "rn")]
    look, at = await look_at(tools, item), int(dealt)
    todo = OccurrencePlan([at + one for one in times], at + upto, at + DAY)
    monkeypatch.setattr("coordinator.toolsets.items.store.recurring.plan", lambda *_: todo)
    with pytest.raises(ScriptFailure, match="NOT_AFTER"):
        await tools.claiming.claims.make(tools.project, at, [DueTemplate(inner, recurs, dealt, False)])
    assert (await tools.store.command("HGET", key, "rn")).decode() == dealt
    assert (await look_at(tools, item), await occurrences(tools, item)) == (look, [])


async def test_the_next_look_at_a_template_is_not_in_the_past(tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    item = await template(tools)
    inner, key = item.replace("-", ""), keys.item.key(tools.project, item.replace("-", ""))
    recurs, dealt = [text.decode() for text in await tools.store.command("HMGET", key, "rc", "rn")]
    now = await server_time(tools.store)
    monkeypatch.setattr(
        "coordinator.toolsets.items.store.recurring.plan", lambda *_: OccurrencePlan([], now, now - DAY)
    )
    await tools.claiming.claims.make(tools.project, now, [DueTemplate(inner, recurs, dealt, False)])
    assert await look_at(tools, item) >= now


async def test_a_template_that_may_begin_earlier_is_looked_at_then(tools: Client) -> None:
    item = await template(tools, "0 0 * * *", notBefore="+100d")
    far = await look_at(tools, item)
    assert (await tools.update(item, notBefore=None))["updated"] == 1
    await expire(tools)
    assert await look_at(tools, item) == ms((await tools.get(item))["recurs"]["nextAt"]) < far - 90 * DAY
    await must_be_sound(tools)


async def test_a_template_whose_zone_is_not_known_here_is_read_without_its_next_time(tools: Client) -> None:
    item = await template(tools)
    key = keys.item.key(tools.project, item.replace("-", ""))
    await tools.store.command("HSET", key, "rc", Recurrence("0 9 * * *", "localtime").stored())
    assert "nextAt" not in (await tools.get(item))["recurs"]
    await age(tools, item, DAY)
    await expire(tools)
    assert await occurrences(tools, item) == []
