"""Connections of the client: which are used again, and what becomes of requests whose answers are late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from coordinator.client.http import Origin, Pool, Sent
from tests.client.scripted import Scripted, raw, silence
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio
MESSAGE = b'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 13\r\n\r\n{"params":{}}'


@pytest.fixture
async def pool(scripted: Scripted) -> AsyncIterator[Pool]:
    pool = Pool(Origin.of(scripted.url), Sent())
    yield pool
    pool.close()
    await asyncio.sleep(0)  # the transports close in the next turn


async def asked(scripted: Scripted, times: int = 1) -> None:
    """Returns when so many requests have come."""
    await wait_until(lambda: len(scripted.heads) == times, what="the request")


async def test_a_connection_is_used_again(scripted: Scripted, pool: Pool) -> None:
    scripted.steps = [raw("one", server="x"), raw("two", "404 Not Found")]
    for status, body, server in ((200, b"one", "x"), (404, b"two", "")):
        response = await pool.request(MESSAGE, 30.0)
        assert (response.status, response.body, response.header(b"server")) == (status, body, server)
    assert scripted.connections == 1


async def test_late_answers_end_their_requests_in_time_and_no_others(scripted: Scripted, pool: Pool) -> None:
    answered = asyncio.Event()
    ended: list[str] = []

    async def later(writer: asyncio.StreamWriter) -> None:
        await answered.wait()
        await raw("at last")(writer)

    async def late(name: str, seconds: float) -> None:
        with pytest.raises(TimeoutError):
            await pool.request(MESSAGE, seconds)
        ended.append(name)

    scripted.steps = [later, silence]
    patient = asyncio.create_task(pool.request(MESSAGE, 3600.0))
    await asked(scripted)
    async with asyncio.timeout(30):
        await asyncio.gather(late("third", 0.09), late("first", 0.03), late("second", 0.06))
        await late("fourth", 0.01)
        answered.set()
        assert (await patient).body == b"at last"
    assert ended == ["first", "second", "third", "fourth"]


async def test_a_request_that_is_given_up_takes_its_connection_along(scripted: Scripted, pool: Pool) -> None:
    scripted.steps = [raw("before"), silence, raw("after")]
    await pool.request(MESSAGE, 30.0)
    given_up = asyncio.create_task(pool.request(MESSAGE, 30.0))
    await asked(scripted, 2)
    given_up.cancel()
    await asyncio.wait([given_up])
    assert (await pool.request(MESSAGE, 30.0)).body == b"after"
    assert scripted.connections == 2


async def test_a_late_answer_is_noticed_after_the_pool_was_closed(scripted: Scripted, pool: Pool) -> None:
    scripted.steps = [silence]
    under_way = asyncio.create_task(pool.request(MESSAGE, 0.05))
    await asked(scripted)
    pool.close()
    async with asyncio.timeout(30):
        with pytest.raises(TimeoutError):
            await under_way
