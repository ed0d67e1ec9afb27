"""Keys of the fleet: the same in every process, made once, renewed in time, told apart by purpose."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import time
from collections.abc import AsyncIterator

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Store, keys, signing_keys
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.signing_keys import Key, KeyRing, SigningKeys

pytestmark = pytest.mark.anyio

_DAY_MS = 86_400_000
GIVEN = ("second:" + "22" * 32, "first:" + "11" * 32)


@pytest.fixture
async def clean(store: Store) -> AsyncIterator[Store]:
    """A store without keys of the fleet."""
    await store.command("DEL", keys.signing_keys.key(keys.FLEET))
    yield store
    await store.command("DEL", keys.signing_keys.key(keys.FLEET))


async def age(store: Store, days: float) -> None:
    """Makes all keys older."""
    name = keys.signing_keys.key(keys.FLEET)
    for identity in await store.command("HKEYS", name):
        made, _, secret = (await store.command("HGET", name, identity)).partition(b":")
        await store.command("HSET", name, identity, b"%d:%s" % (int(made) - int(days * _DAY_MS), secret))


def forget(known: SigningKeys) -> None:
    """As if the last read of the process were long ago."""
    known.read_at = float("-inf")


async def test_all_processes_have_the_same_keys_however_many_begin_at_once(clean: Store) -> None:
    fleet = [SigningKeys(clean) for _ in range(20)]
    rings = await asyncio.gather(*(one.ring() for one in fleet for _ in range(3)))
    assert len({ring.ids for ring in rings}) == 1
    assert len(await clean.command("HKEYS", keys.signing_keys.key(keys.FLEET))) == 1
    signature = await fleet[0].sign("x", b"data")
    assert {await one.verify("x", b"data", signature.mac) for one in fleet} == {signature.key}


async def test_a_signature_is_valid_for_its_bytes_and_purpose_only(clean: Store) -> None:
    known = SigningKeys(clean)
    mac = (await known.sign("x", b"data")).mac
    assert await known.verify("x", b"data", mac[:16]) is not None
    for purpose, data, shown in [
        ("y", b"data", mac),
        ("x", b"Data", mac),
        ("x", b"data", mac[:15]),
        ("x", b"data", b""),
        ("x", b"data", bytes([mac[0] ^ 1]) + mac[1:]),
        ("x", b"data", mac + b"\0"),
    ]:
        assert await known.verify(purpose, data, shown) is None


async def test_keys_are_renewed_and_old_ones_verify_until_enough_newer_ones_are_there(clean: Store) -> None:
    signed = []
    for generation in range(signing_keys.KEPT + 2):
        known = SigningKeys(clean, days=10)
        signed.append(await known.sign("x", b"data"))
        assert len({one.key for one in signed}) == generation + 1
        await age(clean, 9.9)
        assert (await SigningKeys(clean, days=10).sign("x", b"data")).key == signed[-1].key
        await age(clean, 0.2)
    latest = SigningKeys(clean, days=1000)
    verified = [await latest.verify("x", b"data", one.mac) for one in signed]
    assert verified == [None, *(one.key for one in signed[1:])]


async def test_a_process_loads_a_newer_key_when_it_sees_its_signature(clean: Store) -> None:
    old = SigningKeys(clean, days=10)
    first = await old.sign("x", b"data")
    await age(clean, 11)
    newer = await SigningKeys(clean, days=10).sign("x", b"data")
    assert newer.key != first.key
    old.read_at = time.monotonic() + 60  # a moment ago, however long this machine has taken since
    assert await old.verify("x", b"data", newer.mac) is None, "asked again within a second"
    old.read_at = time.monotonic() - 2
    assert await old.verify("x", b"data", newer.mac) == newer.key
    assert (await old.sign("x", b"data")).key == newer.key


async def test_a_process_signs_with_a_newer_key_after_an_hour(clean: Store) -> None:
    known = SigningKeys(clean, days=10)
    first = await known.sign("x", b"data")
    await age(clean, 11)
    newer = await SigningKeys(clean, days=10).sign("x", b"data")
    assert (await known.sign("x", b"data")).key == first.key
    known.read_at -= signing_keys.REREAD_SECONDS
    assert (await known.sign("x", b"data")).key == newer.key


async def test_a_cancelled_caller_does_not_cancel_the_shared_read(clean: Store) -> None:
    known = SigningKeys(clean)
    first, second = (asyncio.ensure_future(known.ring()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second is await known.ring()
    assert first.cancelled()


async def test_forged_signatures_do_not_cause_repeated_reads(clean: Store) -> None:
    known = SigningKeys(clean)
    await known.ring()
    asked: list[str] = []
    clean.observe = lambda script, seconds, outcome, *_: asked.append(script)
    for number in range(50):
        assert await known.verify("x", b"%d" % number, b"0" * 32) is None
    assert asked == []


async def test_known_keys_work_while_the_store_is_down(redis_url: str) -> None:
    store = Store(redis_url, 1000)
    await store.open()
    known, ignorant = SigningKeys(store), SigningKeys(store)
    signature = await known.sign("x", b"data")
    await store.close()
    assert await known.verify("x", b"data", signature.mac) == signature.key
    forget(known)
    assert (await known.sign("x", b"data")).key == signature.key
    with pytest.raises(ToolFailure) as failure:
        await ignorant.sign("x", b"data")
    assert failure.value.code == "store_unavailable"


async def test_keys_survive_the_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = EmbeddedServer(tmp_path_factory.mktemp("keys"))
    signed = []
    try:
        for _ in range(2):
            store = Store(server.start(), 5000)
            await store.open()
            signed.append(await SigningKeys(store).sign("x", b"data"))
            await store.close()
            server.stop()
    finally:
        server.stop()
    assert signed[0] == signed[1]


async def test_configured_keys_are_used_without_the_store() -> None:
    store = Store("redis://nowhere")
    both, before = SigningKeys(store, GIVEN), SigningKeys(store, GIVEN[1:])
    old, new = await before.sign("x", b"data"), await both.sign("x", b"data")
    assert (old.key, new.key) == ("first", "second")
    assert await both.verify("x", b"data", old.mac) == "first"
    assert await before.verify("x", b"data", new.mac) is None


def test_a_ring_shows_no_secrets_and_derives_keys_by_purpose() -> None:
    ring = KeyRing([Key("k", bytes(range(32)))])
    (derived,) = ring.keys("x")
    assert derived.secret == hmac.new(bytes(range(32)), b"fleet-coordinator:x", hashlib.sha256).digest()
    assert ring.sign("x", b"data").mac == hmac.new(derived.secret, b"data", hashlib.sha256).digest()
    assert ring.keys("y") != ring.keys("x")
    assert repr(derived) == "Key(k)"
    assert ring.keys("x") is ring.keys("x")
    purposes = [f"project {number}" for number in range(3 * signing_keys.MOST_PURPOSES)]
    made = [ring.keys(purpose) for purpose in purposes]
    kept = itertools.takewhile(lambda at: ring.keys(purposes[at]) is made[at], reversed(range(len(purposes))))
    assert 0 < len(list(kept)) <= signing_keys.MOST_PURPOSES
    assert ring.keys("x") == (derived,)
    with pytest.raises(ValueError, match="needs a key"):
        KeyRing([])
