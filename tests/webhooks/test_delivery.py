"""Deliveries to a real receiver: order, retries, pauses, gaps, and the end of a webhook."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import msgspec
import pytest
import redis

from coordinator.settings import Settings
from coordinator.settings.sections.webhooks import Webhook
from coordinator.store import Store, keys
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.webhooks import delivery, sender
from coordinator.webhooks.metrics import LAG, STATES
from coordinator.webhooks.records import DISABLE_SECONDS, WebhookRecord, WebhookRecords
from tests.items.client import Client, actor, fresh_id
from tests.support.counts import counted
from tests.support.wait import wait_until
from tests.webhooks.conftest import DELAYS, Serving
from tests.webhooks.receiver import SECRET, Got, Receiver

pytestmark = pytest.mark.anyio


async def record(store: Store) -> WebhookRecord:
    (found,) = await WebhookRecords(store).read(["hook"])
    return found


async def begun(store: Store, *others: str) -> None:
    """Waits until the webhook has a position, after which it gets everything."""

    async def has() -> bool:
        return all(one.cursor for one in await WebhookRecords(store).read(["hook", *others]))

    await wait_until(has, what="a position")


async def noted(store: Store) -> None:
    """Waits until a delivery has been noted."""

    async def has() -> bool:
        return bool((await record(store)).delivered_at)

    await wait_until(has, what="a delivery to be noted")


async def test_events_are_delivered_signed_in_order_and_thin(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    await tools.add("before")
    async with serving(receiver.url):
        await begun(alone)
        ids = await tools.add_many(5)
        await tools("claim_item", requestId=fresh_id(), actor=actor("a"), claims=[{"itemId": ids[0]}])
        await tools.advance(ids[0], "start", "a")
        got = await receiver.until(6)
    assert [one.body["data"]["id"] for one in got] == [*ids, ids[0]]
    first, last = got[0], got[5]
    assert set(first.body) == {"type", "eventId", "name", "timestamp", "data", "cursor"}
    assert first.body["type"] == first.body["name"] == "item.create"
    assert last.body["type"] == "item.transition"
    assert '"a"' not in last.text  # nobody's name
    assert [one.id for one in got] == [f"hook:{one.body['eventId']}" for one in got]
    assert abs(int(first.headers["webhook-timestamp"]) - time.time()) < 60
    assert first.headers["content-type"] == "application/json"
    assert receiver.connections == 1  # which is kept
    assert len(receiver.got) == 6


async def test_filters_are_those_of_the_feed(alone: Store, tools: Client, serving: Serving, receiver: Receiver) -> None:
    root, other = await tools.add("root"), await tools.add("other")
    async with serving(receiver.url, kinds=("item.create", "item.claim"), root=(root,)):
        await begun(alone)
        await tools.add("elsewhere", parentId=other)
        child = await tools.add("child", parentId=root)
        await tools("claim_item", requestId=fresh_id(), actor=actor("a"), claims=[{"itemId": child}])
        got = await receiver.until(2)
    assert [(one.body["type"], one.body["data"]["id"]) for one in got] == [
        ("item.create", child),
        ("item.claim", child),
    ]


async def test_a_failing_message_is_sent_again_with_its_id_and_blocks_those_behind_it(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    answers = iter([500, 404, 503, 302])
    receiver.answer = lambda request: next(answers, 200)
    async with serving(receiver.url):
        await begun(alone)
        ids = await tools.add_many(3)
        got = await receiver.until(3)
        assert (await record(alone)).failures == 0
    assert [one.body["data"]["id"] for one in got] == ids
    assert [one.answered for one in receiver.got] == [500, 404, 503, 302, 200, 200, 200]
    assert len({one.id for one in receiver.got[:5]}) == 1
    assert len({one.text for one in receiver.got[:5]}) == 1


async def test_a_new_process_goes_on_where_the_last_one_stopped(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    async with serving(receiver.url):
        await begun(alone)
        await tools.add("one")
        await noted(alone)
    await tools.add("two")
    async with serving(receiver.url, process="host/fe-1"):
        await tools.add("three")
        got = await receiver.until(3)
    assert len(got) == len({one.id for one in got}) == 3


async def test_one_process_delivers_and_another_takes_over_in_the_middle(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    async with serving(receiver.url, process="host/fe-1"):
        async with serving(receiver.url, process="host/fe-0"):
            await begun(alone)
            ids = await tools.add_many(30)
            await receiver.until(5)
        more = await tools.add_many(5)
        await wait_until(lambda: len(set(receiver.ids)) == 35, what="35 messages")
    # Each once and in order, but for what was under way at the change.
    firsts = list(dict.fromkeys(one.body["data"]["id"] for one in receiver.taken))
    assert firsts == [*ids, *more]
    assert len(receiver.taken) <= 36


async def test_no_attempt_is_made_by_a_process_that_leads_no_longer(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "HELD_SECONDS", -1.0)
    lease = keys.leader_lease.key(keys.FLEET, "deliver webhooks")
    async with serving(receiver.url) as webhooks:
        await begun(alone)
        await tools.add("one")
        await noted(alone)
        await alone.command("SET", lease, "somebody else", "PX", "60000")
        await tools.add_many(2)
        assert not await webhooks.round()
        assert len(receiver.got) == 1
        await alone.command("DEL", lease)
        got = await receiver.until(3)
    assert len(got) == len({one.id for one in got}) == 3


def retry_after(seconds: str, status: int = 429) -> Any:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("retry-after", seconds)
        request.send_header("content-length", "0")
        request.end_headers()

    return answer


async def failed(store: Store) -> WebhookRecord:
    """The record after the next failure."""

    async def has() -> WebhookRecord | None:
        found = await record(store)
        return found if found.failures else None

    found = await wait_until(has, what="a failure")
    assert found is not None
    return found


@pytest.mark.parametrize(("status", "least"), [(429, 290), (503, 290), (500, 0)])
async def test_retry_after_is_honoured_where_it_means_slow_down(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver, status: int, least: int
) -> None:
    receiver.answer = retry_after("300", status)
    async with serving(receiver.url):
        await begun(alone)
        await tools.add("one")
        found = await failed(alone)
    assert (found.not_before - found.error_at) / 1000 >= least
    assert (found.not_before - found.error_at) / 1000 <= 301


async def test_the_delays_grow_to_ten_hours(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "DELAYS", DELAYS)
    monkeypatch.setattr(delivery, "JITTER", (1.0, 1.0))
    receiver.answer = lambda request: 500
    async with serving(receiver.url) as webhooks:
        await begun(alone)
        await tools.add("one")
        delays = []
        for count in range(1, 9):

            async def has(count: int = count) -> bool:
                return (await record(alone)).failures == count

            await wait_until(has, what=f"{count} failures")
            found = await record(alone)
            delays.append((found.not_before - found.error_at) // 1000)
            # As if that time had passed.
            await alone.command("HSET", keys.webhook.key(keys.FLEET, "hook"), "at", "0")
            await webhooks.round()
    assert delays == [5, 300, 1800, 7200, 18000, 36000, 36000, 36000]


async def test_a_receiver_that_is_gone_is_disabled_until_it_is_resumed(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    receiver.answer = lambda request: 410
    async with serving(receiver.url):
        await begun(alone)
        await tools.add("one")
        found = await failed(alone)
        assert (found.status, found.why, found.state) == ("disabled", "gone", "disabled")
        receiver.answer = lambda request: 200
        await tools.add("two")
        await WebhookRecords(alone).switch("hook", "default", "active")
        got = await receiver.until(2)
        events = await alone.command("XRANGE", keys.fleet_events.key(keys.FLEET), "-", "+")
    assert [one.answered for one in receiver.got] == [410, 200, 200]
    assert len(got) == 2
    kinds = [flat[1] for _, flat in events if flat[3] == b"hook"]
    assert kinds == [b"webhook.disabled", b"webhook.resumed"]


async def test_five_days_of_failures_alone_disable_it(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    receiver.answer = lambda request: 500
    key = keys.webhook.key(keys.FLEET, "hook")
    async with serving(receiver.url):
        await begun(alone)
        await tools.add("one")
        found = await failed(alone)
        for missing, status in ((3600, "active"), (-1, "disabled")):
            since = found.now - (DISABLE_SECONDS - missing) * 1000
            count = (await record(alone)).failures
            await alone.command("HSET", key, "fs", str(since))

            async def has(count: int = count, status: str = status) -> bool:
                one = await record(alone)
                return one.failures > count + 1 or one.status == status == "disabled"

            await wait_until(has, what="another failure")
            assert (await record(alone)).status == status
    assert (await record(alone)).why == "failing"


async def test_a_paused_webhook_gets_nothing_and_all_of_it_once_it_is_resumed(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "HELD_SECONDS", -1.0)
    records = WebhookRecords(alone)
    with Receiver() as other:
        async with serving(receiver.url, others=[other.url]):
            await begun(alone, "other-0")
            await tools.add("one")
            await noted(alone)
            await records.switch("hook", "default", "paused")
            await tools.add_many(3)
            await other.until(4)
            assert len(receiver.got) == 1
            await records.switch("hook", "default", "active")
            got = await receiver.until(4)
    assert len({one.id for one in got}) == 4


async def test_a_webhook_lags_only_while_attempts_are_to_come(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    """The alert on it ends when it is paused; one that is disabled has an alert of its own."""
    records = WebhookRecords(alone)
    receiver.answer = lambda request: 500
    async with serving(receiver.url):

        async def has(state: str, lags: bool) -> None:
            def reported() -> bool:
                lag = counted(LAG, "hook")
                return (lag > 0) == lags and counted(STATES, state) == 1

            await wait_until(reported, what=f"a report of {state}")

        await begun(alone)
        await tools.add("one")
        await has("failing", lags=True)
        await records.switch("hook", "default", "paused")
        await has("paused", lags=False)
        await records.switch("hook", "default", "active")
        await has("failing", lags=True)
        receiver.answer = lambda request: 410
        await has("disabled", lags=False)


async def test_a_failing_webhook_holds_up_no_other(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    receiver.answer = lambda request: 500
    with Receiver() as other:
        async with serving(receiver.url, others=[other.url]):
            await begun(alone, "other-0")
            await tools.add_many(20)
            await other.until(20)
    assert not receiver.taken


async def trim(store: Store, keep: int) -> None:
    await store.command("XTRIM", keys.events.key("default"), "MAXLEN", "=", str(keep))


def without_ids(got: list[Got]) -> list[tuple[str, Any]]:
    return [(one.body["type"], one.body["data"].get("reason") or one.body["data"]["id"]) for one in got]


async def test_a_receiver_is_told_that_events_were_trimmed_before_it_got_them(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    async with serving(receiver.url):
        await begun(alone)
        await tools.add("one")
        await noted(alone)
        receiver.answer = lambda request: 500
        await tools.add_many(4)
        await failed(alone)
    ids = await tools.add_many(4)
    await trim(alone, 3)
    async with serving(receiver.url):
        gap = (await failed(alone)).failures
        await wait_until(lambda: receiver.got[-1].body["type"] == "gap", what="the gap")
        # Trimmed once more while the message about the gap fails.
        await trim(alone, 2)
        receiver.answer = lambda request: 200
        got = await receiver.until(4)
    assert gap
    assert without_ids(got[1:]) == [("gap", "trimmed"), ("item.create", ids[2]), ("item.create", ids[3])]
    assert got[1].body["data"] == {"project": "default", "reason": "trimmed"}
    assert len({one.id for one in receiver.got if one.body["type"] == "gap"}) == 1


async def test_a_gap_behind_a_gap_is_told_and_a_told_one_is_not_told_again(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    async with serving(receiver.url):
        await begun(alone)
        await tools.add("one")
        await noted(alone)
    ids = await tools.add_many(6)
    await trim(alone, 4)
    receiver.answer = lambda request: 200 if len(receiver.got) < 2 else 500
    async with serving(receiver.url):
        await receiver.until(2)  # the gap
        await failed(alone)
    async with serving(receiver.url):
        await wait_until(lambda: len(receiver.got) > 6)
    assert [one.body["type"] for one in receiver.got].count("gap") == 1
    await trim(alone, 2)
    receiver.answer = lambda request: 200
    async with serving(receiver.url):
        got = await receiver.until(5)
    assert without_ids(got[1:]) == [
        ("gap", "trimmed"),
        ("gap", "trimmed"),
        ("item.create", ids[4]),
        ("item.create", ids[5]),
    ]
    assert got[1].id != got[2].id


async def test_a_receiver_is_told_that_the_store_was_emptied(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    async with serving(receiver.url):
        await begun(alone)
        await tools.add("one")
        await noted(alone)
    await alone.command("DEL", keys.events.key("default"))
    async with serving(receiver.url):
        await receiver.until(2)
        item = await tools.add("two")
        got = await receiver.until(3)
    assert without_ids(got[1:]) == [("gap", "lost"), ("item.create", item)]


async def test_a_receiver_is_told_that_another_server_lacks_what_it_was_told(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    async with serving(receiver.url):
        await begun(alone)
        await tools.add("one")
        await noted(alone)
    # As after a failover: the position is one of another history, with an entry that is not here.
    cursor = (await record(alone)).cursor
    entry = cursor.partition("-")[2].rpartition("-")[0]
    elsewhere = f"{cursor[:8]}deadbeef-{int(entry) + 1}-7"
    await alone.command("HSET", keys.webhook.key(keys.FLEET, "hook"), "c", elsewhere)
    item = await tools.add("two")
    async with serving(receiver.url):
        got = await receiver.until(3)
    assert without_ids(got[1:]) == [("gap", "failover"), ("item.create", item)]
    assert got[1].id == f"hook:gap-{int(entry) + 1}-7"


@pytest.mark.parametrize(("fails_over", "types"), [(False, ["item.create"]), (True, ["gap", "item.create"])])
async def test_a_process_that_takes_over_after_a_failover_says_that_events_may_be_missing(
    alone: Store,
    tools: Client,
    serving: Serving,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    fails_over: bool,
    types: list[str],
) -> None:
    """What a failover has lost is lost together with the record of its delivery: nobody knows what was told."""
    async with serving(receiver.url):
        await begun(alone)
        await tools.add("one")
        await noted(alone)
    cursor = (await record(alone)).cursor
    elsewhere = f"{cursor[:8]}deadbeef{cursor[16:]}"  # of another server, whose entry this one has, too
    await alone.command("HSET", keys.webhook.key(keys.FLEET, "hook"), "c", elsewhere)
    monkeypatch.setattr(Store, "fails_over", fails_over)
    async with serving(receiver.url):
        await tools.add("two")
        got = await receiver.until(1 + len(types))
    assert [one.body["type"] for one in got[1:]] == types


async def test_a_change_of_project_begins_anew(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    other = Client(alone, "other")
    async with serving(receiver.url):
        await begun(alone)
    async with serving(receiver.url, project="other"):

        async def has() -> bool:
            found = await record(alone)
            return found.project == "other" and bool(found.cursor)

        await wait_until(has)
        await tools.add("one")
        item = await other.add("two")
        got = await receiver.until(1)
    assert [one.body["data"]["id"] for one in got] == [item]


async def test_the_position_moves_past_what_is_not_for_the_webhook(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "IDLE_SECONDS", 0.05)
    async with serving(receiver.url, kinds=("item.delete",)):
        await begun(alone)
        before = (await record(alone)).cursor
        await tools.add("one")

        async def moved() -> bool:
            return (await record(alone)).cursor != before

        await wait_until(moved)
    await trim(alone, 1)
    async with serving(receiver.url, kinds=("item.delete",)):
        await tools("manage_items", requestId=fresh_id(), operation="delete", ids=[await tools.add("two")])
        got = await receiver.until(1)
    assert [one.body["type"] for one in got] == ["item.delete"]  # and no gap


async def test_slow_and_endless_answers_do_not_hold_it_up(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "TOTAL_SECONDS", 0.5)
    monkeypatch.setattr(sender, "REST_SECONDS", 0.2)
    kinds: list[str] = []
    again, fine = threading.Event(), threading.Event()

    def answer(request: BaseHTTPRequestHandler) -> int | None:
        kind = ["slow head", "endless body", "slow body", "fine"][min(len(kinds), 3)]
        kinds.append(kind)
        if len(kinds) > 1:
            again.set()
        if kind == "fine":
            fine.set()
            return 200
        if kind == "slow head":
            again.wait(60)  # the sender gives up before, and comes again
            return None
        request.send_response(200)
        request.end_headers()
        try:
            for _ in range(100_000):
                request.wfile.write(b"x" * (1 if kind == "slow body" else 65536))
                if kind == "slow body" and fine.wait(0.1):
                    break  # the sender has gone on
        except OSError:
            pass
        return None

    receiver.answer = answer
    async with serving(receiver.url):
        await begun(alone)
        await tools.add_many(3)
        await wait_until(lambda: len({one.id for one in receiver.got}) == 3)
    # The first was sent again after its head came too late; a success counts, whatever its body does.
    assert kinds == ["slow head", "endless body", "slow body", "fine"]


async def test_a_delivery_is_noted_in_a_full_store(
    alone: Store, own_server: EmbeddedServer, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    with redis.Redis.from_url(own_server.url) as client:

        def answer(request: BaseHTTPRequestHandler) -> int:
            client.config_set("maxmemory", 1)
            return 200

        receiver.answer = answer
        try:
            async with serving(receiver.url):
                await begun(alone)
                await tools.add("one")
                await noted(alone)
        finally:
            client.config_set("maxmemory", 0)
    assert len(receiver.got) == 1


async def test_settings_that_change_are_taken_over_and_the_place_stays(
    alone: Store, tools: Client, serving: Serving, receiver: Receiver
) -> None:
    given = Webhook(url=receiver.url, secret=SECRET, allow_private=True)
    with Receiver() as other:
        async with serving(receiver.url, others=[other.url]) as webhooks:
            await begun(alone, "other-0")
            await tools.add("one")
            await noted(alone)
            others = {"other-0": Webhook(url=other.url, secret=SECRET, allow_private=True)}
            webhooks.configure(Settings(webhooks=others))
            await webhooks.round()
            await tools.add("two")
            await other.until(2)
            assert len(receiver.got) == 1
            # A variable that is not set makes nothing worse for the others.
            unset = msgspec.structs.replace(given, secret="", secret_env="NO_SUCH")
            webhooks.configure(Settings(webhooks={"hook": unset} | others))
            await webhooks.round()
            await tools.add("three")
            await other.until(3)
            assert len(receiver.got) == 1
            webhooks.configure(Settings(webhooks={"hook": given} | others))
            got = await receiver.until(3)
    assert len({one.id for one in got}) == 3
