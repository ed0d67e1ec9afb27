"""Keys of a fleet: fetched once, shared with the other processes and with those that start later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.errors import ToolFailure
from coordinator.identity.clock import FleetClock
from coordinator.identity.keys.copies import KeyCopies
from coordinator.identity.keys.fetch import Fetcher
from coordinator.identity.keys.keyset import key_set
from coordinator.identity.keys.sources import JwksUri, Loaded, OidcDiscovery, RemoteSource
from coordinator.identity.metrics import KEY_AGE
from coordinator.identity.verifiers.jwks import JwksVerifier
from coordinator.store import ServerError, Store, keys
from tests.identity.conftest import MakeVerifier
from tests.identity.old_keys import grow_old, only_cache
from tests.identity.servers import KeyServer
from tests.identity.signing import ISSUER, Signer, jwks
from tests.support.counts import counted
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

OLD, NEW = Signer("old"), Signer("new", number=1)

NewProcess = Callable[[], JwksVerifier]


def remote(verifier: JwksVerifier) -> RemoteSource:
    source = only_cache(verifier).source
    assert isinstance(source, RemoteSource)
    return source


def copy_key(verifier: JwksVerifier) -> bytes:
    return keys.key_copy.key(keys.FLEET, remote(verifier).name)


def let_ask(fleet: redis.Redis, *verifiers: JwksVerifier) -> None:
    """As if the cooldown had passed."""
    for verifier in verifiers:
        fleet.delete(keys.key_fetch_lease.key(keys.FLEET, remote(verifier).name))
        only_cache(verifier).next_ask = 0.0


def events(fleet: redis.Redis) -> list[tuple[str, str]]:
    """Kind and subject of the events of the fleet."""
    found: Any = fleet.xrange(keys.fleet_events.key(keys.FLEET))
    return [(fields[b"k"].decode(), fields[b"i"].decode()) for _, fields in found]


@pytest.fixture
def new_process(
    key_server: KeyServer, make_verifier: MakeVerifier, store: Store, fleet_keys: redis.Redis
) -> NewProcess:
    """Makes the verifiers of the processes of a fleet."""
    return lambda: make_verifier(key_server.url(), store)


@pytest.fixture
async def first(key_server: KeyServer, new_process: NewProcess) -> JwksVerifier:
    """A process that has fetched the key OLD: the store holds the fleet's copy of it."""
    key_server.serve(jwks(OLD))
    verifier = new_process()
    assert (await verifier.verify(OLD.token())).status == "verified"
    return verifier


@pytest.mark.every_store
async def test_processes_share_one_request(key_server: KeyServer, new_process: NewProcess) -> None:
    key_server.serve(jwks(OLD))
    fleet = [new_process() for _ in range(5)]
    await asyncio.gather(*(one.start() for one in fleet))
    outcomes = await asyncio.gather(*(one.verify(OLD.token()) for one in fleet))
    assert {outcome.status for outcome in outcomes} == {"verified"}
    assert key_server.count() == 1


async def test_unknown_keys_are_asked_for_once_per_cooldown_by_the_whole_fleet(
    key_server: KeyServer, new_process: NewProcess, fleet_keys: redis.Redis
) -> None:
    key_server.serve(jwks(OLD))
    fleet = [new_process() for _ in range(3)]
    for one in fleet:
        assert (await one.verify(OLD.token())).status == "verified"
    let_ask(fleet_keys, *fleet)
    calls = (one.verify(Signer(f"made-up-{n}").token()) for n in range(300) for one in fleet)
    assert {outcome.failure for outcome in await asyncio.gather(*calls)} == {"crypto"}
    assert key_server.count() == 2
    key_server.misbehave("answer", status=500)
    let_ask(fleet_keys, *fleet)
    calls = (one.verify(Signer(f"other-{n}").token()) for n in range(300) for one in fleet)
    assert {outcome.failure for outcome in await asyncio.gather(*calls)} == {"network"}
    assert key_server.count() == 3


async def test_keys_found_by_one_process_are_shared(
    key_server: KeyServer, new_process: NewProcess, fleet_keys: redis.Redis
) -> None:
    key_server.serve(jwks(OLD))
    first, second = (new_process() for _ in range(2))
    for one in (first, second):
        assert (await one.verify(OLD.token())).status == "verified"
    key_server.serve(jwks(NEW))
    let_ask(fleet_keys, first, second)
    assert (await first.verify(NEW.token())).status == "verified"
    asked = key_server.count()
    assert (await second.verify(NEW.token())).status == "verified"
    assert (await second.verify(OLD.token())).failure == "crypto"
    assert key_server.count() == asked


async def test_a_process_waits_for_a_fetch_by_another(
    key_server: KeyServer, new_process: NewProcess, store: Store
) -> None:
    key_server.serve(jwks(OLD))
    first, second = (new_process() for _ in range(2))
    copies, source = KeyCopies(store), remote(first)
    assert (await copies.lease_fetch(source, 0, 30_000)).verdict == "ask"  # the other process is us
    waiting = asyncio.create_task(second.verify(OLD.token()))
    await wait_until(lambda: only_cache(second).renewing is not None)
    await copies.keep(source, Loaded(key_set(jwks(OLD))), 1_000)
    assert (await waiting).status == "verified"
    assert key_server.count() == 0


async def test_a_process_that_starts_meanwhile_waits_for_it_too(
    key_server: KeyServer, new_process: NewProcess, store: Store
) -> None:
    second = new_process()
    copies, source = KeyCopies(store), remote(second)
    assert (await copies.lease_fetch(source, 0, 30_000)).verdict == "ask"
    starting = asyncio.create_task(second.start())
    await wait_until(lambda: only_cache(second).renewing is not None)
    await copies.keep(source, Loaded(key_set(jwks(OLD))), 1_000)
    await starting
    assert (await second.verify(OLD.token())).status == "verified"
    assert key_server.count() == 0


async def test_a_process_that_starts_while_the_server_is_down_has_keys(
    key_server: KeyServer, first: JwksVerifier, new_process: NewProcess
) -> None:
    key_server.kill()
    second = new_process()
    await second.start()
    outcome = await second.verify(OLD.token())
    assert (outcome.status, outcome.metadata) == ("verified", {})  # the copy is fresh
    assert isinstance(only_cache(second).keys.keys, tuple)


async def test_a_stale_copy_is_used_and_reported_as_stale(
    key_server: KeyServer,
    first: JwksVerifier,
    new_process: NewProcess,
    make_verifier: MakeVerifier,
    store: Store,
    fleet_keys: redis.Redis,
) -> None:
    key_server.kill()
    then = int(fleet_keys.hget(copy_key(first), "f") or 0) - 5_000_000
    fleet_keys.hset(copy_key(first), "f", str(then))
    second = new_process()
    await second.start()
    outcome = await second.verify(OLD.token())
    assert outcome.metadata["verifiedFromCache"] == "true"
    assert 5_000 <= int(outcome.metadata["cacheAgeSeconds"]) < 5_060
    await wait_until(lambda: 5_000 <= counted(KEY_AGE, "jwks_uri") < 5_060, what="the age in metrics")
    strict = make_verifier(key_server.url(), store, stale_on_error=False)
    await strict.start()
    assert (await strict.verify(OLD.token())).failure == "network"


async def test_a_stale_copy_is_not_used_while_newer_keys_are_available(
    key_server: KeyServer, first: JwksVerifier, new_process: NewProcess, fleet_keys: redis.Redis
) -> None:
    key_server.serve(jwks(NEW))
    fleet_keys.hincrby(copy_key(first), "f", -5_000_000)
    fleet_keys.delete(keys.key_fetch_lease.key(keys.FLEET, remote(first).name))
    second = new_process()
    await second.start()
    assert (await second.verify(OLD.token())).failure == "crypto"


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "{",
        "{}",
        '{"keys": 5}',
        '{"keys": [{"kty": "oct"}]}',
        "\x00",
        b'{"keys": "\xff"}',
        '{"keys": [{"kid": ' + "[" * 9_999,
    ],
    ids=range(8),
)
async def test_a_damaged_copy_is_fetched_again(
    first: JwksVerifier, new_process: NewProcess, fleet_keys: redis.Redis, garbage: str | bytes
) -> None:
    fleet_keys.hset(copy_key(first), "d", garbage)
    let_ask(fleet_keys, first)
    second = new_process()
    await second.start()
    assert (await second.verify(OLD.token())).status == "verified"


async def test_an_empty_set_replaces_no_copy(
    key_server: KeyServer, first: JwksVerifier, new_process: NewProcess, fleet_keys: redis.Redis
) -> None:
    copy = fleet_keys.hget(copy_key(first), "d")
    key_server.serve({"keys": []})
    let_ask(fleet_keys, first)
    assert (await first.verify(NEW.token())).failure == "network"
    assert fleet_keys.hget(copy_key(first), "d") == copy
    assert (await new_process().verify(OLD.token())).status == "verified"


async def test_the_copy_holds_public_keys_only(
    key_server: KeyServer, new_process: NewProcess, fleet_keys: redis.Redis
) -> None:
    key_server.serve({"keys": [OLD.private_jwk]})
    first = new_process()
    assert (await first.verify(OLD.token())).status == "verified"
    copy: Any = fleet_keys.hget(copy_key(first), "d")
    assert b'"x"' in copy
    assert b'"d"' not in copy
    assert fleet_keys.ttl(copy_key(first)) > 29 * 86_400


async def test_a_failing_source_is_reported_once_and_known_to_all(
    key_server: KeyServer, new_process: NewProcess, fleet_keys: redis.Redis
) -> None:
    key_server.serve(jwks(OLD))
    fleet = [new_process() for _ in range(3)]
    for one in fleet:
        assert (await one.verify(OLD.token())).status == "verified"
    label = f"jwks_uri {key_server.url()}"
    key_server.misbehave("answer", status=500)
    for _ in range(2):
        let_ask(fleet_keys, *fleet)
        for one in fleet:
            assert (await one.verify(NEW.token())).failure == "network"
    assert [one.report()["sources"][0]["trouble"] for one in fleet] == [
        "the key server answered with status 500 instead of 200"
    ] * 3
    assert events(fleet_keys) == [("identity.keys_failing", label)]
    key_server.serve(jwks(OLD, NEW))
    let_ask(fleet_keys, *fleet)
    for one in fleet:
        assert (await one.verify(NEW.token())).status == "verified"
    assert [one.report()["state"] for one in fleet] == ["ok"] * 3
    assert events(fleet_keys)[1:] == [("identity.keys_recovered", label), ("identity.keys_changed", label)]
    key_server.misbehave("answer", status=500)
    let_ask(fleet_keys, *fleet)
    assert (await fleet[0].verify(Signer("next").token())).failure == "network"
    assert events(fleet_keys)[3:] == [("identity.keys_failing", label)]


async def test_discovery_is_shared_too(
    key_server: KeyServer, make_verifier: MakeVerifier, store: Store, fleet_keys: redis.Redis
) -> None:
    key_server.serve({"issuer": ISSUER, "jwks_uri": key_server.url()}, "/openid")
    key_server.serve(jwks(OLD))
    openid = key_server.url("/openid")
    first = make_verifier(oidc_discovery=openid, issuer="", store=store)
    assert (await first.verify(OLD.token())).status == "verified"
    key_server.kill()
    second = make_verifier(oidc_discovery=openid, issuer="", store=store)
    assert (await second.verify(OLD.token())).status == "verified"
    assert (await second.verify(OLD.token(iss="https://other.example"))).failure == "claims"


async def test_discovery_is_repeated_when_its_keys_cannot_be_loaded(key_server: KeyServer) -> None:
    key_server.serve({"issuer": ISSUER, "jwks_uri": key_server.url("/first")}, "/openid")
    key_server.serve(jwks(OLD), "/first")
    source = OidcDiscovery(key_server.url("/openid"), True, Fetcher())
    assert (await source.load()).keys.knows("old")
    assert (await source.load()).keys.knows("old")
    assert key_server.count("/openid") == 1
    key_server.serve({"issuer": ISSUER, "jwks_uri": key_server.url("/second")}, "/openid")
    key_server.serve("", "/first", status=410)
    key_server.serve(jwks(NEW), "/second")
    with pytest.raises(Exception, match="410"):
        await source.load()
    assert (await source.load()).keys.knows("new")


async def test_without_the_store_each_process_asks_for_itself(
    key_server: KeyServer, make_verifier: MakeVerifier, tmp_path: Any
) -> None:
    key_server.serve(jwks(OLD))
    nowhere = Store(f"unix://{tmp_path}/nobody.sock", timeout_ms=50)
    verifier = make_verifier(key_server.url(), nowhere)
    await verifier.start()
    assert (await verifier.verify(OLD.token())).status == "verified"
    grow_old(verifier, 1_000)
    key_server.kill()
    assert (await verifier.verify(OLD.token())).metadata["verifiedFromCache"] == "true"
    await nowhere.close()


async def test_the_store_s_clock_decides(
    key_server: KeyServer, new_process: NewProcess, make_verifier: MakeVerifier, monkeypatch: Any
) -> None:
    key_server.serve(jwks(OLD))
    token, real = OLD.token(exp=int(time.time()) + 5), time.time
    monkeypatch.setattr("coordinator.identity.clock.time.time", lambda: real() - 7_200)
    behind = new_process()
    monkeypatch.setattr("coordinator.identity.clock.time.time", lambda: real() + 7_200)
    ahead = new_process()
    alone = make_verifier(key_server.url())
    for verifier in (behind, ahead):
        await verifier.start()
        assert (await verifier.verify(token)).status == "verified"
        assert abs(verifier.clock.now() - real()) < 60
    assert (await alone.verify(token)).failure == "claims"


async def test_the_store_s_clock_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.identity.clock.LOOK_SECONDS", 0.001)
    times: Iterator[int | Exception] = iter(
        [ToolFailure("store_unavailable", "the store is away"), 1_000_000, ServerError("BUSY"), 5_000_000]
    )

    async def ask() -> int:
        answer = next(times, 5_000_000)
        if isinstance(answer, Exception):
            raise answer
        return answer

    clock = FleetClock(ask)
    following = asyncio.create_task(clock.follow())
    await wait_until(lambda: 5_000 <= clock.now() < 5_060, what="the last of the times")
    following.cancel()


Step = tuple[str, int]


_steps = st.tuples(st.sampled_from(["lease", "look", "keep", "fail", "cooled"]), st.integers(0, 3))


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_steps, min_size=1, max_size=30))
async def test_one_process_fetches_at_a_time(store: Store, fleet_keys: redis.Redis, steps: list[Step]) -> None:
    """Random interleavings of four processes, against a model."""
    copies, source = KeyCopies(store), JwksUri("https://model.example/jwks", Fetcher())
    lease_key = keys.key_fetch_lease.key(keys.FLEET, source.name)
    fleet_keys.delete(lease_key, keys.key_copy.key(keys.FLEET, source.name))
    have = [0, 0, 0, 0]
    latest, document, trouble, leased, busy = 0, b"", "", False, False
    for number, (step, who) in enumerate(steps):
        if step == "cooled":
            fleet_keys.delete(lease_key)
            leased = busy = False
        elif step == "keep":
            loaded = Loaded(key_set(jwks(Signer(f"k{number}"))))
            previous = latest
            latest, document = await copies.keep(source, loaded, 60_000), loaded.document()
            trouble, busy, leased = "", False, True
            assert latest >= previous
        elif step == "fail":
            trouble, busy = f"trouble {number}", False
            leased = True
            await copies.fail(source, trouble, "network", 60_000)
        else:
            answer = await copies.lease_fetch(source, have[who], 60_000 if step == "lease" else 0)
            assert (answer.fetched, answer.trouble) == (latest, trouble)
            if latest > have[who]:
                assert (answer.verdict, answer.document) == ("take", document)
                have[who] = latest
            elif step == "lease" and not leased:
                assert answer.verdict == "ask"
                leased = busy = True
            else:
                assert answer.verdict == ("busy" if busy else "wait")
                assert (answer.wait_ms > 0) is leased
