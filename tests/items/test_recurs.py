"""Templates of recurring items: their occurrences, made once each, whoever makes them and however late."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Store, keys
from coordinator.toolsets.items.field_types.due_times import Recurs
from coordinator.toolsets.items.rules.times.recurrence import PORTION, Recurrence, following, plan, recurrence
from tests.items.attempts import must_be_sound
from tests.items.client import Client, Json
from tests.items.moments import ms, server_time
from tests.items.recurrence import age, occurrences, template
from tests.items.selectors import take
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

DAY = 86_400_000
MINUTE = 60_000


@pytest.fixture
def tools(store: Store, project: str) -> Client:
    return Client(store, project)


def at(text: str) -> int:
    return ms(text)


def times(found: Recurrence, after: str, count: int) -> list[str]:
    """The next times in the zone of the recurrence."""
    moments, now = [], at(after)
    for _ in range(count):
        now = following(found, now) or 0
        moments.append(datetime.fromtimestamp(now / 1000, ZoneInfo(found.zone)).isoformat())
    return moments


@pytest.mark.parametrize(
    ("cron", "told"),
    [
        ("61 * * * *", "bad minute; allowed: 0 to 59,"),
        ("0 0 30 2 *", "bad day-of-month; allowed: 1 to 31, L or LW, and a day that one of the months has,"),
        ("0 0 * * MO", "bad day-of-week; allowed: 0 to 7, or SUN to SAT,"),
        ("0 0 * * 1 *", "must have five fields (minute hour day month weekday), not 6"),
        ("*/90 * * * *", "a step of minute must be at most 60"),
        ("0 0,8/25 * * *", "a step of hour must be at most 24"),
        ("0 0 * 1-3/13 *", "a step of month must be at most 12"),
    ],
)
def test_a_bad_expression_is_refused_with_what_is_allowed(cron: str, told: str) -> None:
    with pytest.raises(ToolFailure) as refused:
        recurrence(Recurs(cron=cron))
    assert refused.value.message.startswith("recurs.cron: ")
    assert told in refused.value.message


def test_times_follow_the_clocks_of_their_zone() -> None:
    night = Recurrence("30 2 * * *", "Europe/Berlin")
    assert times(night, "2026-03-28T00:00:00+01:00", 3) == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",  # 02:30 does not exist
        "2026-03-30T02:30:00+02:00",
    ]
    assert times(night, "2026-10-25T00:00:00+02:00", 2) == ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]
    thirds = Recurrence("*/20 2 * * *", "America/New_York")  # one time for all that do not exist
    assert times(thirds, "2026-03-08T00:00:00-05:00", 2) == ["2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00"]
    assert times(Recurrence("*/30 1 * * *", "America/New_York"), "2026-11-01T00:00:00-04:00", 3) == [
        "2026-11-01T01:00:00-04:00",
        "2026-11-01T01:30:00-04:00",
        "2026-11-02T01:00:00-05:00",
    ]
    halves = Recurrence("*/30 * * * *", "Europe/Berlin")
    assert times(halves, "2026-10-25T02:00:00+02:00", 3) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T02:30:00+01:00",
    ]
    assert times(Recurrence("@weekly"), "2026-11-26T12:00:00Z", 1) == ["2026-11-29T00:00:00+00:00"]


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("cron", {"cron": ""}),
        ("cron", {"cron": "* * * *"}),
        ("cron", {"cron": "* * * * * *"}),
        ("cron", {"cron": "60 * * * *"}),
        ("cron", {"cron": "@often"}),
        ("cron", {"cron": "0 0 31 2,4 *"}),
        ("cron", {"cron": "* " * 200}),
        ("timeZone", {"cron": "0 9 * * *", "timeZone": "Mars/Olympus"}),
        ("timeZone", {"cron": "0 9 * * *", "timeZone": "../etc/passwd"}),
        ("timeZone", {"cron": "0 9 * * *", "timeZone": "localtime"}),
        ("timeZone", {"cron": "0 9 * * *", "timeZone": "posixrules"}),
        ("timeZone", {"cron": "0 9 * * *", "timeZone": "Factory"}),
        ("timeZone", {"cron": "0 9 * * *", "timeZone": "right/Europe/Berlin"}),
        ("timeZone", {"cron": "0 9 * * *", "timeZone": "posix/Europe/Berlin"}),
        ("missed", {"cron": "0 9 * * *", "missed": "some"}),
        ("overlap", {"cron": "0 9 * * *", "overlap": "maybe"}),
    ],
)
async def test_a_bad_recurrence_is_refused_by_its_field(tools: Client, field: str, given: Json) -> None:
    (failure,) = (await tools.create({"title": "x", "recurs": given}))["failures"]
    assert failure["error"].startswith(f"recurs.{field}: "), failure
    refused = await tools.refusal("create_work_tree", root={"title": "x", "recurs": given})
    assert refused.message.startswith(f"root.recurs.{field}: ")


@pytest.mark.parametrize("missed", ["skip", "one", "all"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("cron", ["30 2 * * *", "*/30 1-4 * * *"])
def test_any_sequence_of_looks_deals_with_each_time_once(cron: str, zone: str, missed: str) -> None:
    """Beside a plain model: all times of some weeks with a change of clocks, looked at with gaps of any length."""
    found, start = Recurrence(cron, zone, missed), at("2026-03-01T00:00:00Z")
    every, now = [], start
    while (now := following(found, now) or 0) < start + 45 * DAY:
        every.append(now)
    made: list[int] = []
    chance, dealt, look = random.Random(7), start, start
    while look < start + 40 * DAY:
        look += chance.choice((MINUTE // 2, 20 * MINUTE, chance.randrange(DAY), chance.randrange(2 * DAY)))
        before = dealt
        while True:
            todo = plan(found, dealt, look)
            assert todo.times == sorted(set(todo.times))
            assert len(todo.times) <= PORTION
            made += todo.times
            dealt = todo.dealt
            if dealt >= look:
                break
        passed = [time for time in every if before < time <= look]
        new = [time for time in made if time > before]
        if missed == "all":
            assert new == passed
        elif missed == "one":
            assert new == passed[-1:]
        else:
            assert new == [time for time in passed[-1:] if time >= look - MINUTE]
        assert todo.look == next(time for time in every if time > look)


@pytest.mark.every_store
async def test_an_occurrence_repeats_the_template_alone(tools: Client) -> None:
    parent, blocker = await tools.add("parent"), await tools.add("blocker")
    fields: Json = {
        "summary": "s" * 100, "description": "long", "priority": "high", "complexity": 3, "tags": "nightly,report",
        "type": "task", "requires": ["gpu"], "metadata": "m", "properties": '{"a":1}', "traits": "x",
        "requiresVerification": True, "maxAttempts": 2, "retryBackoffSeconds": 7, "parentId": parent,
        "budget": {"tokens": 9, "wallMs": 5}, "resources": [{"key": "gpu/0", "mode": "shared", "units": 1}],
    }  # fmt: skip
    item = await template(tools, dueAt="+2h", **fields)
    await tools.link(blocker, item)
    await tools("manage_notes", operation="upsert", notes=[{"itemId": item, "key": "k", "role": "queue", "body": "b"}])
    await age(tools, item, DAY)
    await tools.claiming.claims.expire(tools.project)
    (made,) = await occurrences(tools, item)
    shown = await tools.get(item)
    left_out = {
        "id",
        "recurs",
        "dueAt",
        "createdAt",
        "modifiedAt",
        "roleChangedAt",
        "notBefore",
        "recurrenceOf",
        "overdue",
    }
    same = {name: value for name, value in shown.items() if name not in left_out}
    assert {name: value for name, value in made.items() if name not in left_out} == same
    assert ms(made["dueAt"]) == ms(made["notBefore"]) + 2 * 3_600_000
    assert (await tools("query_notes", operation="list", itemId=made["id"]))["notes"] == []
    found = await take(tools, "able", {"tags": "nightly"}, capabilities=["gpu"])
    assert found["itemId"] == made["id"]
    await must_be_sound(tools)


async def test_occurrences_of_a_container_are_containers(tools: Client) -> None:
    item = await template(tools, container=True)
    await age(tools, item, DAY)
    await tools.claiming.claims.expire(tools.project)
    (made,) = await occurrences(tools, item)
    assert made["container"] is (await tools.get(item))["container"] is True
    assert await tools.next() == []
    await must_be_sound(tools)


async def spend(tools: Client, item: str, tokens: int) -> None:
    """Reports usage of an item."""
    note = {"itemId": item, "key": "k", "role": "work", "usage": {"outputTokens": tokens}}
    assert (await tools("manage_notes", operation="upsert", notes=[note]))["upserted"] == 1


async def test_each_occurrence_has_the_budget_anew_and_one_above_holds_all_back(tools: Client) -> None:
    parent = await tools.add(budget={"tokens": 100})
    item = await template(
        tools, "0 0 * * *", recurs={"overlap": "allow"}, parentId=parent, budget={"tokens": 5}, tags="t"
    )
    await spend(tools, item, 7)  # the template's own budget: its occurrences are not below it
    for count in (1, 2):
        await age(tools, item, 2 * DAY)
        await tools.claiming.claims.expire(tools.project)
        assert len(await occurrences(tools, item)) == count
    first, second = await occurrences(tools, item)
    assert all((one["budget"], "usage" in one, "budgetSpent" in one) == ({"tokens": 5}, False, False)
               for one in (first, second))  # fmt: skip
    await spend(tools, first["id"], 6)
    assert (await tools.claim("a", first["id"]))["outcome"] == "budget_exhausted"
    assert (await take(tools, "a", {"tags": "t"}))["itemId"] == second["id"]
    await tools.update(item, budget=None)
    await spend(tools, parent, 100)
    await age(tools, item, 2 * DAY)
    await tools.claiming.claims.expire(tools.project)
    third = next(one for one in await occurrences(tools, item) if one["id"] not in (first["id"], second["id"]))
    assert "budget" not in third
    assert (await tools.claim("b", third["id"]))["budget"]["itemId"] == parent
    assert (await take(tools, "b", {"tags": "t"}))["heldBack"]["budget"] == 2
    await must_be_sound(tools)


async def test_a_template_is_never_offered(tools: Client) -> None:
    item = await template(tools)
    assert await tools.next() == []
    assert (await take(tools, "any"))["outcome"] == "no_match"
    assert "heldBack" not in await take(tools, "any")
    claim = await tools.claim("any", item)
    assert (claim["outcome"], claim["ready"]) == ("success", False)
    assert "template" in claim["reason"]
    status = await tools("get_next_status", itemId=item)
    assert (status["recommendation"], "template" in status["suggestion"]) == ("Blocked", True)
    await tools.release("any", item, reason="failed")
    assert await tools.next() == []
    await must_be_sound(tools)
    shown = (await tools.get(item))["recurs"]
    assert {name: shown[name] for name in ("cron", "timeZone", "missed", "overlap")} == {
        "cron": "0 9 * * *", "timeZone": "UTC", "missed": "one", "overlap": "skip",
    }  # fmt: skip
    assert ms(shown["nextAt"]) > await server_time(tools.store)
    assert (await tools.update(item, recurs=None))["updated"] == 1
    assert await tools.next() == [item]
    await must_be_sound(tools)


@pytest.mark.parametrize(("missed", "count"), [("skip", 0), ("one", 1), ("all", 25)])
async def test_after_days_without_a_process(tools: Client, missed: str, count: int) -> None:
    now = datetime.now(UTC)
    away = (now.minute + 30) % 60  # half an hour from now: no time is just past
    item = await template(tools, f"{away} * * * *", recurs={"missed": missed, "overlap": "allow"})
    await age(tools, item, 25 * 3_600_000)
    await tools.claiming.claims.expire(tools.project)
    made = await occurrences(tools, item)
    assert len(made) == count
    assert len({one["notBefore"] for one in made}) == count
    if missed == "one":
        assert ms(made[0]["notBefore"]) > await server_time(tools.store) - 3_600_000
    await must_be_sound(tools)


@pytest.mark.parametrize(("overlap", "count"), [("skip", 1), ("allow", 3)])
async def test_occurrences_overlap_only_if_they_may(tools: Client, overlap: str, count: int) -> None:
    item = await template(tools, "0 0 * * *", recurs={"overlap": overlap})
    for _ in range(3):
        await age(tools, item, 2 * DAY)
        await tools.claiming.claims.expire(tools.project)
    made = await occurrences(tools, item)
    assert len(made) == count
    for one in made:
        await tools.move(one["id"], "cancel")
    await must_be_sound(tools)
    await age(tools, item, 2 * DAY)
    await tools.claiming.claims.expire(tools.project)
    assert len(await occurrences(tools, item)) == count + 1
    await tools.move(made[0]["id"], "reopen")
    await tools.delete(made[0]["id"])
    await must_be_sound(tools)


async def test_any_number_of_processes_make_each_once(tools: Client, store: Store, project: str) -> None:
    item = await template(tools, "*/10 * * * *", recurs={"missed": "all", "overlap": "allow"})
    others = [Client(store, project) for _ in range(3)]
    await age(tools, item, 10 * 3_600_000)
    await asyncio.gather(*(one.claiming.claims.expire(project) for one in (tools, *others) for _ in range(3)))
    made = await occurrences(tools, item)
    assert len(made) == 60
    assert len({one["notBefore"] for one in made}) == 60
    await must_be_sound(tools)


@pytest.mark.parametrize("trigger", ["cancel", "complete", "block", "hold"])
async def test_a_template_that_is_ended_or_blocked_makes_none(tools: Client, trigger: str) -> None:
    item = await template(tools)
    await age(tools, item, 3 * DAY)
    await tools.move(item, trigger)
    await tools.claiming.claims.expire(tools.project)
    assert await occurrences(tools, item) == []
    assert "nextAt" not in (await tools.get(item))["recurs"]
    await must_be_sound(tools)
    await tools.move(item, "resume" if trigger in ("block", "hold") else "reopen")
    await tools.claiming.claims.expire(tools.project)
    assert await occurrences(tools, item) == []  # what has passed meanwhile does not count
    assert "nextAt" in (await tools.get(item))["recurs"]
    await must_be_sound(tools)
    await tools.delete(item)
    await must_be_sound(tools)


async def test_a_template_does_not_end_with_its_children(tools: Client) -> None:
    """It would make nothing any more, and nobody would have decided that."""
    top = await tools.add("top")
    item = await template(tools, parentId=top)
    below = await tools.add("below", parentId=item)
    begun = await tools.move(below, "start")
    assert [one["itemId"] for one in begun["cascadeEvents"]] == [item, top]  # it is taken to work like any parent
    ended = await tools.move(below, "complete")
    assert ended["cascadeEvents"] == []
    assert [(await tools.get(one))["role"] for one in (item, top)] == ["work", "work"]
    assert await tools.next() == []
    await age(tools, item, 2 * DAY)
    await tools.claiming.claims.expire(tools.project)
    (made,) = await occurrences(tools, item)
    assert (made["parentId"], made["role"]) == (top, "queue")
    await tools.delete(made["id"])
    await must_be_sound(tools)
    # Ended by somebody, it is a child that has ended.
    ended = await tools.move(item, "complete")
    assert [one["itemId"] for one in ended["cascadeEvents"]] == [top]
    await must_be_sound(tools)


async def test_no_occurrence_comes_before_the_template_is_to_begin(tools: Client) -> None:
    item = await template(tools, "* * * * *", notBefore="+10d")
    await age(tools, item, DAY)
    await tools.claiming.claims.expire(tools.project)
    assert await occurrences(tools, item) == []
    shown = await tools.get(item)
    assert ms(shown["recurs"]["nextAt"]) >= ms(shown["notBefore"])
    await must_be_sound(tools)


async def test_a_waiting_claim_gets_an_occurrence_on_time(tools: Client) -> None:
    item = await template(tools, "* * * * *")

    async def wait() -> tuple[Json, int]:
        found = await take(tools, "waits", wait_ms=20_000)
        return found, await server_time(tools.store)

    task = asyncio.create_task(wait())
    await wait_until(lambda: tools.store.command("EXISTS", keys.waiting.key(tools.project)))
    await age(tools, item, MINUTE)
    now = await server_time(tools.store)
    found, ended = await task
    assert (await tools.get(found["itemId"]))["recurrenceOf"] == item
    assert ended - now < 1_500  # as soon as its process looks; a time that it knows of is met exactly
    await must_be_sound(tools)


async def test_a_due_time_of_a_template_counts_from_each_occurrence(tools: Client) -> None:
    for given in ({"dueAt": "2027-01-01T00:00:00Z"},):
        (failure,) = (await tools.create({"title": "x", "recurs": {"cron": "@daily"}, **given}))["failures"]
        assert failure["error"].startswith("dueAt: of a template")
    item = await tools.add(dueAt="2027-01-01T00:00:00Z")
    (failure,) = (await tools.update(item, recurs={"cron": "@daily"}))["failures"]
    assert failure["error"].startswith("dueAt: of a template")
    assert (await tools.update(item, recurs={"cron": "@daily"}, dueAt="+1d"))["updated"] == 1
    assert (await tools.get(item))["dueAt"] == "+1d"
    (failure,) = (await tools.update(item, dueAt="2027-01-01T00:00:00Z"))["failures"]
    assert failure["error"].startswith("dueAt: of a template")
    assert (await tools.update(item, recurs=None))["updated"] == 1
    due = ms((await tools.get(item))["dueAt"])
    assert abs(due - DAY - await server_time(tools.store)) < 5_000
    await must_be_sound(tools)


def test_a_stated_default_is_the_same() -> None:
    assert recurrence(Recurs(cron="0 9 * * *")) == recurrence(Recurs(cron=" 0  9 * * * ", time_zone="UTC"))
