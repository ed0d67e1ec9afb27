"""The link against a peer that misbehaves: order, deadlines, bounds, and its own event loop being blocked."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import pytest

from coordinator.errors import ToolFailure
from coordinator.store.link import connection
from coordinator.store.link import shared as link_module
from coordinator.store.link.address import Address, parse
from coordinator.store.link.connection import Connection
from coordinator.store.link.shared import Link
from coordinator.store.scripts import pack
from tests.store.conftest import OpenLink, StartFake
from tests.support.fake_redis import FakeRedis, Peer, bulk
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

UNAVAILABLE = "store_unavailable"


async def outcome(call: asyncio.Future[object]) -> object:
    """The outcome of a call: its reply, or the code of its failure."""
    try:
        return await call
    except ToolFailure as failure:
        return failure.code


def echo(link: Link, number: int) -> asyncio.Future[object]:
    return link.submit(pack(("ECHO", number)))


async def test_replies_that_come_in_single_bytes_reach_their_callers(
    start_fake: StartFake, open_link: OpenLink
) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet()
        replies = b"".join([bulk((await peer.command())[1]) for _ in range(20)])
        for at in range(len(replies)):
            peer.send(replies[at : at + 1])
            await peer.drain()

    fake = await start_fake(talk)
    link = await open_link(fake.url)
    assert await asyncio.gather(*(echo(link, n) for n in range(20))) == [b"%d" % n for n in range(20)]


async def test_false_and_null_are_replies_like_others(start_fake: StartFake, open_link: OpenLink) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet()
        for _ in range(4):
            await peer.command()
        peer.send(b"#f\r\n_\r\n")
        await peer.drain()
        peer.send(b"#t\r\n*0\r\n")
        await peer.echo()

    fake = await start_fake(talk)
    link = await open_link(fake.url)
    assert await asyncio.gather(*(echo(link, n) for n in range(4))) == [False, None, True, []]
    assert await echo(link, 5) == b"5"


async def test_push_messages_are_not_taken_for_replies(start_fake: StartFake, open_link: OpenLink) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet()
        while True:
            word = (await peer.command())[1]
            peer.send(b">2\r\n+invalidate\r\n*1\r\n+key\r\n" + bulk(word) + b">1\r\n+more\r\n")

    fake = await start_fake(talk)
    link = await open_link(fake.url)
    assert await asyncio.gather(*(echo(link, n) for n in range(50))) == [b"%d" % n for n in range(50)]
    assert fake.connections == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [(b"+one\r\n+two\r\n", "unexpected reply"), (b"nonsense\r\n", "broke the protocol")],
    ids=["unasked", "nonsense"],
)
async def test_after_a_wrong_answer_the_connection_is_replaced(
    answer: bytes, why: str, start_fake: StartFake, open_link: OpenLink
) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet()
        if peer.number == 1:
            await peer.command()
            peer.send(answer)
        await peer.echo()

    fake = await start_fake(talk)
    link = await open_link(fake.url)
    await outcome(echo(link, 1))
    await wait_until(lambda: link.connects == 2, what="a second connection")
    assert await echo(link, 2) == b"2"


async def test_a_reply_after_the_deadline_is_discarded(start_fake: StartFake, open_link: OpenLink) -> None:
    release = asyncio.Event()

    async def talk(peer: Peer) -> None:
        await peer.greet()
        if peer.number == 1:
            word = (await peer.command())[1]
            await release.wait()
            peer.send(bulk(word))
        await peer.echo()

    fake = await start_fake(talk)
    link = await open_link(fake.url, timeout=0.5)
    started = time.monotonic()
    assert await outcome(echo(link, 1)) == UNAVAILABLE
    assert 0.5 <= time.monotonic() - started < 30
    release.set()
    await wait_until(lambda: link.connected)
    assert await asyncio.gather(*(echo(link, n) for n in range(2, 9))) == [b"%d" % n for n in range(2, 9)]


async def test_a_deadline_is_enforced_while_other_replies_arrive(start_fake: StartFake, open_link: OpenLink) -> None:
    """The oldest unanswered call counts, also when each reply is on time for the one before."""

    async def talk(peer: Peer) -> None:
        await peer.greet()
        while True:
            word = (await peer.command())[1]
            await asyncio.sleep(0.05)
            peer.send(bulk(word))

    fake = await start_fake(talk)
    link = await open_link(fake.url, timeout=0.5)
    calls = [echo(link, n) for n in range(40)]
    results = await asyncio.gather(*map(outcome, calls))
    answered = [result for result in results if result != UNAVAILABLE]
    assert answered == [b"%d" % n for n in range(len(answered))]
    assert 1 <= len(answered) < len(calls)


@dataclass
class Clock:
    """The part of an event loop that a connection uses, with a clock set by the test."""

    now: float = 0.0
    timer: tuple[float, Callable[[], None]] | None = None

    def time(self) -> float:
        return self.now

    def create_future(self) -> asyncio.Future[object]:
        return asyncio.get_running_loop().create_future()

    def call_soon(self, act: Callable[[], None]) -> None:
        act()

    def call_at(self, when: float, act: Callable[[], None]) -> Clock:
        self.timer = when, act
        return self

    def cancel(self) -> None:
        self.timer = None

    def move(self, until: float) -> None:
        while self.timer is not None and self.timer[0] <= until:
            (when, act), self.timer = self.timer, None
            self.now = max(self.now, when)
            act()
        self.now = max(self.now, until)


async def test_the_deadline_of_a_call_counts_from_its_submission() -> None:
    clock = Clock()
    lost: list[float] = []
    line = Connection(cast("asyncio.AbstractEventLoop", clock), 1.0, 10, lambda *_: lost.append(clock.now))
    first, other = (line.submit(pack(("ECHO", 1))) for _ in range(2))
    clock.move(0.1)
    second = line.submit(pack(("ECHO", 2)))
    clock.move(0.9)
    line.data_received(bulk(b"1") * 2)
    clock.move(3.0)
    assert await outcome(first) == await outcome(other) == b"1"
    assert await outcome(second) == UNAVAILABLE
    assert len(lost) == 1
    assert 1.1 <= lost[0] < 1.25, "not before its time, and at most two ticks late"
    assert await outcome(line.submit(pack(("ECHO", 3)))) == UNAVAILABLE, "would wait for a connection that is gone"


async def test_time_in_which_our_own_loop_was_blocked_does_not_count() -> None:
    """The replies may have arrived meanwhile, but were not read."""
    clock = Clock()
    lost: list[float] = []
    line = Connection(cast("asyncio.AbstractEventLoop", clock), 1.0, 10, lambda *_: lost.append(clock.now))
    first, second = (line.submit(pack(("ECHO", number))) for number in (1, 2))
    clock.move(0.5)
    clock.now += 1.5
    clock.move(2.4)
    line.data_received(bulk(b"1"))
    assert not lost
    clock.move(4.0)
    assert await outcome(first) == b"1"
    assert await outcome(second) == UNAVAILABLE
    assert len(lost) == 1
    assert 2.5 <= lost[0] < 2.75, "a second after its submission, without the time that the loop was blocked"


async def test_an_answered_call_does_not_time_out_later() -> None:
    clock, lost = Clock(), list[float]()
    line = Connection(cast("asyncio.AbstractEventLoop", clock), 1.0, 10, lambda *_: lost.append(clock.now))
    for number in (b"1", b"2", b"3"):
        call = line.submit(pack(("ECHO", number)))
        clock.move(clock.now + 0.5)
        line.data_received(bulk(number))
        assert await outcome(call) == number
        clock.move(clock.now + 0.7)
        assert clock.timer is None, "without calls there is no deadline to check"
        clock.move(clock.now + 5.0)
    assert not lost


async def test_bytes_that_were_sent_do_not_count_against_later_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_UNSENT_BYTES", 1000)
    line = Connection(cast("asyncio.AbstractEventLoop", Clock()), 1.0, 1000, lambda *_: None)

    def accepted() -> int:
        """How many calls it accepts while the peer reads nothing."""
        line.pause_writing()
        calls = 0
        with contextlib.suppress(ToolFailure):
            while calls < 1000:
                line.submit(pack(("ECHO", 1)))
                calls += 1
        line.resume_writing()
        return calls

    first = accepted()
    assert accepted() == first
    assert 10 < first < 100


async def test_calls_beyond_the_bound_are_rejected_at_once(start_fake: StartFake, open_link: OpenLink) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet()
        await asyncio.Event().wait()

    fake = await start_fake(talk)
    link = await open_link(fake.url, timeout=0.5, max_in_flight=10)
    calls = [echo(link, n) for n in range(10)]
    with pytest.raises(ToolFailure, match="too many calls") as raised:
        echo(link, 11)
    assert raised.value.code == "over_capacity"
    assert raised.value.retry_after_ms
    assert link.in_flight == 10
    assert await asyncio.gather(*map(outcome, calls)) == [UNAVAILABLE] * 10
    assert link.in_flight == 0


async def test_unsent_bytes_are_bounded(
    start_fake: StartFake, open_link: OpenLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_UNSENT_BYTES", 4 * 1024 * 1024)
    read_on = asyncio.Event()

    async def talk(peer: Peer) -> None:
        await peer.greet()
        await read_on.wait()
        await peer.echo()

    fake = await start_fake(talk)
    link = await open_link(fake.url, timeout=30)
    word = b"x" * (1024 * 1024)
    calls: list[asyncio.Future[object]] = []

    async def fill() -> None:
        for _ in range(64):
            calls.append(link.submit(pack(("ECHO", word))))
            await asyncio.sleep(0)

    with pytest.raises(ToolFailure, match="too many calls"):
        await fill()
    read_on.set()
    assert await asyncio.gather(*calls) == [word] * len(calls)
    assert await echo(link, 1) == b"1"


async def test_reconnects_back_off_when_the_peer_disconnects_after_each_greeting(
    start_fake: StartFake, open_link: OpenLink
) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet()
        await peer.drain()

    fake = await start_fake(talk)
    link = await open_link(fake.url)
    started = time.monotonic()
    await wait_until(lambda: fake.connections >= 7, what="seven connections")
    # Pauses of at least 10, 20, 40, 80 and 160 ms lie between the second connection and the seventh.
    assert time.monotonic() - started > 0.3
    with pytest.raises(ToolFailure) as raised:
        await echo(link, 1)
    assert raised.value.code == UNAVAILABLE
    assert raised.value.retry_after_ms


async def test_calls_during_the_first_attempt_to_reconnect_wait_for_it(
    start_fake: StartFake, open_link: OpenLink
) -> None:
    hang_up, welcome = asyncio.Event(), asyncio.Event()
    sent = []

    async def talk(peer: Peer) -> None:
        if peer.number == 1:
            await peer.greet()
            await hang_up.wait()
            return
        await welcome.wait()
        await peer.greet()
        while True:
            sent.append((await peer.command())[1])
            peer.send(bulk(sent[-1]))

    fake = await start_fake(talk)
    link = await open_link(fake.url, max_in_flight=20)
    hang_up.set()
    await wait_until(lambda: not link.connected, what="the loss")
    calls = [echo(link, n) for n in range(20)]
    calls[3].cancel()
    assert link.in_flight == 20
    with pytest.raises(ToolFailure, match="too many calls"):
        echo(link, 20)
    welcome.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [result for n, result in enumerate(results) if n != 3] == [b"%d" % n for n in range(20) if n != 3]
    assert b"3" not in sent, "was sent although its caller was cancelled"
    assert (link.connects, link.in_flight) == (2, 0)


@pytest.mark.parametrize("ending", ["the attempt fails", "the link is closed"])
async def test_calls_that_wait_to_be_sent_fail_when_they_cannot_be(
    ending: str, start_fake: StartFake, open_link: OpenLink
) -> None:
    hang_up, turn_away = asyncio.Event(), asyncio.Event()

    async def talk(peer: Peer) -> None:
        if peer.number == 2:
            await turn_away.wait()
            return
        await peer.greet()
        if peer.number == 1:
            await hang_up.wait()
            return
        await peer.echo()

    fake = await start_fake(talk)
    link = await open_link(fake.url)
    hang_up.set()
    await wait_until(lambda: not link.connected, what="the loss")
    left, *calls = [echo(link, n) for n in range(5)]
    left.cancel()
    if ending == "the link is closed":
        await link.close()
        assert "store-link" not in [task.get_name() for task in asyncio.all_tasks()], "tries on"
    turn_away.set()
    async with asyncio.timeout(30):
        assert await asyncio.gather(*map(outcome, calls)) == [UNAVAILABLE] * 4
    assert link.in_flight == 0
    if ending == "the attempt fails":
        await wait_until(lambda: link.connected, what="the recovery")
        assert await echo(link, 5) == b"5"


@pytest.mark.parametrize("leaves", [False, True], ids=["stays", "leaves"])
async def test_calls_beyond_the_bound_of_a_new_connection_are_rejected_and_cancelled_ones_forgotten(
    leaves: bool,
    start_fake: StartFake,
    open_link: OpenLink,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(connection, "MAX_UNSENT_BYTES", 4 * 1024 * 1024)
    hang_up, welcome, read_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def talk(peer: Peer) -> None:
        if peer.number == 1:
            await peer.greet()
            await hang_up.wait()
            return
        await welcome.wait()
        await peer.greet()
        await read_on.wait()
        await peer.echo()

    fake = await start_fake(talk)
    link = await open_link(fake.url)
    hang_up.set()
    await wait_until(lambda: not link.connected, what="the loss")
    word = b"x" * (1024 * 1024)
    calls = [link.submit(pack(("ECHO", word))) for _ in range(64)]
    welcome.set()
    await wait_until(lambda: link.connected, what="the new connection")
    if leaves:
        calls.pop(0).cancel()
    read_on.set()
    async with asyncio.timeout(30):
        results = await asyncio.gather(*map(outcome, calls))
    assert set(results) == {word, "over_capacity"}
    assert not [record for record in caplog.records if record.name == "asyncio"]


async def test_calls_fail_at_once_after_a_missed_deadline(start_fake: StartFake, open_link: OpenLink) -> None:
    async def talk(peer: Peer) -> None:
        if peer.number == 1:
            await peer.greet()
        await asyncio.Event().wait()

    fake = await start_fake(talk)
    link = await open_link(fake.url, timeout=0.5)
    assert await outcome(echo(link, 1)) == UNAVAILABLE
    with pytest.raises(ToolFailure, match="did not answer within 500 ms; nothing was sent"):
        echo(link, 2)


@pytest.mark.parametrize("stable", [0.0, 3600.0], ids=["after long", "at once"])
async def test_calls_do_not_wait_for_a_store_that_disconnects_again_at_once(
    stable: float, start_fake: StartFake, open_link: OpenLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "STABLE_SECONDS", stable)

    async def talk(peer: Peer) -> None:
        await peer.greet()
        if peer.number > 8:
            await peer.echo()

    fake = await start_fake(talk)
    link = await open_link(fake.url)
    refused: list[int] = []
    give_up = link.give_up_for_now

    def noted() -> None:
        refused.append(link.connects)
        give_up()

    monkeypatch.setattr(link, "give_up_for_now", noted)
    await wait_until(lambda: link.connects > 8, what="a connection that lasts")
    assert await echo(link, 1) == b"1"
    assert bool(refused) == bool(stable)
    assert not refused or refused[0] >= 4, "the first pauses are so short that calls wait"


async def test_only_the_connection_that_was_lost_has_to_have_lasted(
    start_fake: StartFake, open_link: OpenLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that was up for long backs off from a store that disconnects again at once."""
    hang_up, pauses = asyncio.Event(), list[float]()
    monkeypatch.setattr(link_module, "STABLE_SECONDS", 0.5)
    sleep = asyncio.sleep

    async def talk(peer: Peer) -> None:
        await peer.greet()
        if peer.number == 1:
            await hang_up.wait()
        elif peer.number > 6:
            await peer.echo()

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    fake = await start_fake(talk)
    link = await open_link(fake.url)
    began = time.monotonic()
    await wait_until(lambda: time.monotonic() > began + 0.5)
    monkeypatch.setattr(asyncio, "sleep", noted)
    hang_up.set()
    await wait_until(lambda: link.connects > 6, what="a connection that lasts")
    assert len(pauses) >= 5
    assert max(pauses) > 0.1, "the pauses do not grow"


async def test_while_no_server_listens_calls_fail_at_once_and_recovery_needs_no_call(
    start_fake: StartFake, open_link: OpenLink
) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet()
        await peer.echo()

    fake = await start_fake(talk)
    link = await open_link(fake.url)
    await fake.end()
    await wait_until(lambda: link.refusing, what="the first attempt to fail")
    with pytest.raises(ToolFailure, match="cannot be reached; nothing was sent"):
        echo(link, 2)
    await start_fake(talk, fake.port)
    await wait_until(lambda: link.connected, what="the recovery")
    assert await echo(link, 3) == b"3"


async def test_closing_lets_calls_in_flight_finish(start_fake: StartFake, open_link: OpenLink) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet()
        words = [(await peer.command())[1] for _ in range(30)]
        await asyncio.sleep(0.02)
        peer.send(b"".join(map(bulk, words)))
        await peer.echo()

    fake = await start_fake(talk)
    link = await open_link(fake.url)
    calls, line = [echo(link, n) for n in range(30)], link.connection
    await link.close()
    assert line is not None
    assert line.closed, "its transport is still to be closed"
    assert [call.result() for call in calls] == [b"%d" % n for n in range(30)]
    with pytest.raises(ToolFailure, match="closed") as raised:
        echo(link, 31)
    assert raised.value.code == UNAVAILABLE
    await link.close()


async def test_closing_does_not_wait_beyond_the_timeout(start_fake: StartFake, open_link: OpenLink) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet()
        await asyncio.Event().wait()

    fake = await start_fake(talk)
    link = await open_link(fake.url, timeout=0.5)
    calls = [echo(link, n) for n in range(30)]
    started = time.monotonic()
    await link.close()
    assert time.monotonic() - started < 30
    assert await asyncio.gather(*map(outcome, calls)) == [UNAVAILABLE] * 30


async def test_the_address_is_resolved_before_every_attempt(start_fake: StartFake, open_link: OpenLink) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet()
        await peer.echo()

    fakes: list[FakeRedis] = []

    async def resolve() -> Address:
        return parse(fakes[-1].url)

    first = await start_fake(talk)
    fakes.append(first)
    link = await open_link("redis://127.0.0.1:1", resolve=resolve)
    second = await start_fake(talk)
    fakes.append(second)
    await first.end()
    await wait_until(lambda: second.connections == 1, what="a connection to the new address")
    await wait_until(lambda: link.connected)
    assert await echo(link, 1) == b"1"


@pytest.mark.parametrize("times", [3, 1100], ids=["a few times", "for long"])
async def test_a_resolver_that_fails_does_not_end_the_link(
    times: int, start_fake: StartFake, open_link: OpenLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    if times > 3:
        monkeypatch.setattr(link_module, "PAUSE_MOST", 0.0)
    failures, opened = 0, asyncio.Event()

    async def talk(peer: Peer) -> None:
        await peer.greet()
        if peer.number > 1:
            await peer.echo()
        await opened.wait()

    fake = await start_fake(talk)

    async def resolve() -> Address:
        nonlocal failures
        if opened.is_set() and failures < times:
            failures += 1
            raise RuntimeError("no quorum")
        return parse(fake.url)

    link = await open_link("redis://127.0.0.1:1", resolve=resolve)
    opened.set()
    await wait_until(lambda: fake.connections == 2 and link.connected, what="the recovery")
    assert failures == times
    assert await echo(link, 1) == b"1"
