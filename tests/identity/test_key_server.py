"""Key servers that hang, fail, answer wrongly, rotate keys, stop and restart."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from typing import Any

import pytest

from coordinator.identity.keys import cache as key_cache
from coordinator.identity.keys import fetch, resolvers
from coordinator.identity.keys.cache import KeyCache
from coordinator.identity.keys.sources import OidcDiscovery, SourceFailed
from coordinator.identity.verifiers.jwks import JwksVerifier
from tests.identity.conftest import MakeVerifier, WaitLimit
from tests.identity.old_keys import grow_old, only_cache
from tests.identity.servers import KeyServer
from tests.identity.signing import Json, Signer, jwks
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

OLD, NEW = Signer("old"), Signer("new", number=1)
A_LITTLE = key_cache.WAIT_SECONDS
SOON = 30.0
"""Seconds that a busy machine may take for what waits a little; see ``tireless``."""

TROUBLE: dict[str, tuple[Json, str]] = {
    "hang": ({"mode": "hang"}, "does not answer within 5 seconds"),
    "stall": ({"mode": "stall"}, "does not answer within 5 seconds"),
    "trickle": ({"mode": "trickle"}, "does not answer within 5 seconds"),
    "endless": ({"mode": "endless"}, "more than 1048576 bytes"),
    "2 MiB": ({"body": "{" + " " * 2_097_152 + "}"}, "more than 1048576 bytes"),
    "drop": ({"mode": "drop"}, "broke off"),
    "500": ({"status": 500}, "status 500 instead of 200"),
    "404": ({"status": 404}, "status 404 instead of 200"),
    "204": ({"status": 204, "body": ""}, "status 204 instead of 200"),
    "redirect": ({"status": 302, "headers": {"location": "/elsewhere"}}, "redirects are not followed"),
    "html": ({"type": "text/html"}, "content type other than"),
    "not JSON": ({"body": "<html>"}, "not JSON"),
    "a list": ({"body": "[]"}, "not a JSON object"),
    "no keys": ({"body": "{}"}, "gave no key set"),
    "empty set": ({"body": '{"keys": []}'}, "without a usable key"),
    "useless set": ({"body": '{"keys": [{"kty": "oct", "k": "AA", "kid": "old"}]}'}, "without a usable key"),
    "compressed": ({"headers": {"content-encoding": "gzip"}}, "compressed"),
}
TAKES_LONG = {"hang", "stall", "trickle"}
troubles = pytest.mark.parametrize("trouble", TROUBLE)


def misbehave(server: KeyServer, trouble: str) -> None:
    change, _ = TROUBLE[trouble]
    server.misbehave(change.get("mode", "answer"), **{k: v for k, v in change.items() if k != "mode"})


@pytest.fixture
def tireless(monkeypatch: pytest.MonkeyPatch, wait_limit: WaitLimit) -> None:
    """Requests to the key server time out much later than calls do."""
    monkeypatch.setattr(fetch, "TOTAL_SECONDS", 100.0)
    wait_limit(A_LITTLE)


@pytest.fixture
def waiters(monkeypatch: pytest.MonkeyPatch) -> set[Any]:
    """The tasks that wait for a key server."""
    found: set[Any] = set()
    wait = KeyCache.answer_within

    async def noted(cache: KeyCache, seconds: float) -> None:
        found.add(asyncio.current_task())
        await wait(cache, seconds)

    monkeypatch.setattr(KeyCache, "answer_within", noted)
    return found


async def timed(verifier: JwksVerifier, token: str) -> tuple[str, str | None, float]:
    began = time.perf_counter()
    outcome = await verifier.verify(token)
    return outcome.status, outcome.failure, time.perf_counter() - began


@pytest.fixture
async def warm(key_server: KeyServer, make_verifier: MakeVerifier) -> JwksVerifier:
    """A verifier that has fetched the old key, and may fetch again at any time."""
    key_server.serve(jwks(OLD))
    verifier = make_verifier(key_server.url(), cooldown=0)
    assert (await verifier.verify(OLD.token())).status == "verified"
    return verifier


async def test_unknown_key_names_are_cached_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolvers, "MOST_UNKNOWN", 3)
    unknown = resolvers.UnknownKeys()
    for number in range(5):
        unknown.add(("", str(number)))
    assert [("", str(number)) in unknown for number in range(5)] == [False, False, True, True, True]


class Discovery(fetch.Fetcher):
    """Serves one discovery document, and notes its requests."""

    def __init__(self, jwks_uri: str) -> None:
        super().__init__()
        self.document = json.dumps({"issuer": "https://issuer.example", "jwks_uri": jwks_uri}).encode()
        self.asked: list[str] = []

    async def get(self, url: str, *_: Any) -> fetch.Fetched:
        self.asked.append(url)
        return fetch.Fetched(self.document if len(self.asked) == 1 else json.dumps(jwks(OLD)).encode(), None)


@pytest.mark.parametrize(
    ("url", "jwks_uri", "follows"),
    [
        ("https://id.example/d", "https://keys.example/k", True),
        ("https://id.example/d", "http://keys.example/k", False),
        ("http://localhost/d", "http://localhost/k", True),
        ("http://localhost/d", "https://keys.example/k", True),
        ("http://localhost/d", "file:///etc/keys", False),
    ],
)
async def test_discovery_over_https_leads_to_no_other_scheme(url: str, jwks_uri: str, follows: bool) -> None:
    fetcher = Discovery(jwks_uri)
    source = OidcDiscovery(url, True, fetcher)
    if follows:
        assert len((await source.load()).keys) == 1
    else:
        with pytest.raises(SourceFailed, match="no jwks_uri that could be asked"):
            await source.load()
    assert fetcher.asked == [url, jwks_uri][: 1 + follows]


@troubles
async def test_without_any_keys_tokens_are_unavailable(
    one_key_server: KeyServer, make_verifier: MakeVerifier, wait_limit: WaitLimit, request: Any, trouble: str
) -> None:
    one_key_server.serve(jwks(OLD))
    one_key_server.serve(jwks(OLD), "/elsewhere")
    misbehave(one_key_server, trouble)
    verifier = make_verifier(one_key_server.url())
    if trouble in TAKES_LONG:
        request.getfixturevalue("tireless")
    status, failure, seconds = await timed(verifier, OLD.token())
    assert (status, failure) == ("unavailable", "network")
    assert seconds < SOON
    if trouble not in TAKES_LONG:
        reason = (await verifier.verify(OLD.token())).reason
        assert reason.startswith("the key server ")
        assert TROUBLE[trouble][1] in reason
        assert str(one_key_server.port) not in reason
    assert one_key_server.count("/elsewhere") == 0


@troubles
async def test_known_keys_keep_verifying_at_once(
    warm: JwksVerifier, key_server: KeyServer, waiters: set[Any], request: Any, trouble: str
) -> None:
    misbehave(key_server, trouble)
    if trouble in TAKES_LONG:
        request.getfixturevalue("tireless")
    grow_old(warm, 1_000)
    before = key_server.count()
    assert (await warm.verify(OLD.token("another"))).status == "verified"
    assert not waiters
    outcome = await warm.verify(OLD.token())
    assert outcome.metadata["verifiedFromCache"] == "true"
    assert 1_000 <= int(outcome.metadata["cacheAgeSeconds"]) < 1_060
    # The server is asked for an unknown key, and its answer changes nothing.
    status, failure, seconds = await timed(warm, NEW.token())
    assert (status, failure) == ("unavailable", "network")
    assert seconds < SOON
    assert key_server.count() > before
    assert (await warm.verify(OLD.token("third"))).status == "verified"
    assert warm.report()["state"] == "stale"


@pytest.mark.parametrize("trouble", ["hang", "500", "empty set", "redirect"])
async def test_without_stale_keys_old_ones_are_unavailable(
    key_server: KeyServer, make_verifier: MakeVerifier, wait_limit: WaitLimit, request: Any, trouble: str
) -> None:
    key_server.serve(jwks(OLD))
    verifier = make_verifier(key_server.url(), cooldown=0, stale_on_error=False)
    token = OLD.token()
    assert (await verifier.verify(token)).status == "verified"
    misbehave(key_server, trouble)
    if trouble in TAKES_LONG:
        request.getfixturevalue("tireless")
    assert (await verifier.verify(token)).status == "verified"  # fresh still
    grow_old(verifier, 1_000)
    status, failure, seconds = await timed(verifier, token)
    assert (status, failure) == ("unavailable", "network")
    assert seconds < SOON
    key_server.serve(jwks(OLD))
    wait_limit(SOON)
    if trouble == "hang":
        await only_cache(verifier).aclose()
    outcome = await verifier.verify(token)
    assert (outcome.status, outcome.metadata) == ("verified", {})


async def test_a_hanging_request_ends_after_five_seconds(
    one_key_server: KeyServer, make_verifier: MakeVerifier, wait_limit: WaitLimit
) -> None:
    one_key_server.serve(jwks(OLD))
    one_key_server.misbehave("trickle")
    verifier = make_verifier(one_key_server.url())
    wait_limit(A_LITTLE)
    began = time.perf_counter()
    await verifier.verify(OLD.token())
    await wait_until(lambda: only_cache(verifier).trouble)
    assert time.perf_counter() - began > 4.5
    assert only_cache(verifier).trouble == "the key server does not answer within 5 seconds"


async def test_any_number_of_callers_wait_at_most_a_second(
    one_key_server: KeyServer, make_verifier: MakeVerifier, tireless: None, waiters: set[Any]
) -> None:
    one_key_server.serve(jwks(OLD))
    one_key_server.misbehave("hang")
    verifier = make_verifier(one_key_server.url())
    before = one_key_server.count()
    tokens = [OLD.token(f"agent-{n}") for n in range(100)]
    began = time.perf_counter()
    outcomes = await asyncio.gather(*map(verifier.verify, tokens))
    assert {outcome.status for outcome in outcomes} == {"unavailable"}
    assert time.perf_counter() - began < SOON
    # The second since the first request has passed: from here on no call waits.
    waiters.clear()
    assert (await verifier.verify(OLD.token("late"))).status == "unavailable"
    assert not waiters
    assert one_key_server.count() == before + 1


async def test_known_keys_answer_while_thousands_of_unknown_ones_arrive(
    warm: JwksVerifier, key_server: KeyServer, tireless: None, waiters: set[Any]
) -> None:
    key_server.misbehave("hang")
    before = key_server.count()
    strangers = [OLD.token(head={"kid": f"made-up-{n}"}) for n in range(2_000)]
    known = [OLD.token(f"agent-{n}") for n in range(20)]
    flood = asyncio.gather(*map(warm.verify, strangers))
    await wait_until(lambda: key_server.count() > before)
    for token in known:
        assert (await warm.verify(token)).status == "verified"
    assert asyncio.current_task() not in waiters
    assert waiters, "those whose key is unknown"
    assert {(o.status, o.failure) for o in await flood} == {("unavailable", "network")}
    assert len(waiters) <= key_cache.MOST_WAITING
    assert only_cache(warm).waiting == 0
    assert key_server.count() == before + 1


async def test_a_new_key_is_found_when_it_first_appears(warm: JwksVerifier, key_server: KeyServer) -> None:
    key_server.serve(jwks(NEW))
    assert (await warm.verify(NEW.token())).status == "verified"
    # A removed key verifies nothing any more, not even cached tokens.
    assert (await warm.verify(OLD.token())).status == "rejected"


async def test_a_key_that_stays_keeps_verifying_its_tokens(warm: JwksVerifier, key_server: KeyServer) -> None:
    token = OLD.token()
    assert (await warm.verify(token)).status == "verified"
    key_server.serve(jwks(NEW, OLD))
    assert (await warm.verify(NEW.token())).status == "verified"
    assert (await warm.verify(token)).status == "verified"


async def test_a_replaced_key_verifies_no_old_token(warm: JwksVerifier, key_server: KeyServer) -> None:
    token = OLD.token()
    assert (await warm.verify(token)).status == "verified"
    key_server.serve(jwks(Signer("old", number=5), NEW))
    assert (await warm.verify(NEW.token())).status == "verified"
    assert (await warm.verify(token)).failure == "crypto"


async def test_an_unknown_key_is_fetched_for_once(warm: JwksVerifier, key_server: KeyServer) -> None:
    before = key_server.count()
    for _ in range(5):
        assert (await warm.verify(NEW.token())).failure == "crypto"
    assert key_server.count() == before + 1
    assert (await warm.verify(Signer("third", number=2).token())).failure == "crypto"
    assert key_server.count() == before + 2


async def test_a_source_is_not_asked_during_its_cooldown(key_server: KeyServer, make_verifier: MakeVerifier) -> None:
    key_server.serve(jwks(OLD))
    verifier = make_verifier(key_server.url(), cooldown=300)
    assert (await verifier.verify(OLD.token())).status == "verified"
    assert only_cache(verifier).next_ask < time.monotonic() + 11, "one more request allowed"
    only_cache(verifier).next_ask = 0.0  # as if a little had passed
    for n in range(50):
        assert (await verifier.verify(Signer(f"made-up-{n}").token())).failure == "crypto"
    assert key_server.count() == 2
    assert only_cache(verifier).next_ask > time.monotonic() + 11, "not so soon again for a missing key"
    key_server.misbehave("answer", status=500)
    only_cache(verifier).next_ask = 0.0  # as if the cooldown had passed
    for n in range(50):
        assert (await verifier.verify(Signer(f"other-{n}").token())).failure == "network"
    assert key_server.count() == 3


async def test_a_server_that_is_killed_and_comes_back(warm: JwksVerifier, key_server: KeyServer) -> None:
    key_server.kill()
    grow_old(warm, 400)
    outcome = await warm.verify(OLD.token())
    assert outcome.metadata["verifiedFromCache"] == "true"
    outcome = await warm.verify(NEW.token())
    assert (outcome.failure, outcome.reason) == (
        "network",
        "the key server cannot be connected to (connection refused)",
    )
    key_server.serve(jwks(OLD, NEW))
    key_server.start()
    assert (await warm.verify(NEW.token())).status == "verified"
    outcome = await warm.verify(OLD.token())
    assert (outcome.status, outcome.metadata) == ("verified", {})
    report = warm.report()
    assert 0 <= report["sources"][0].pop("ageSeconds") < 60
    assert report == {"state": "ok", "sources": [{"source": "jwks_uri", "keys": 2, "fresh": True}]}


async def test_keys_are_renewed_before_they_are_stale(key_server: KeyServer, make_verifier: MakeVerifier) -> None:
    key_server.serve(jwks(OLD))
    verifier = make_verifier(key_server.url(), cooldown=0, cache_ttl_seconds=3)
    await verifier.start()
    await wait_until(lambda: only_cache(verifier).loaded)
    key_server.serve(jwks(NEW))
    await wait_until(lambda: only_cache(verifier).keys.knows("new"))
    assert only_cache(verifier).fresh


async def test_a_server_that_was_down_at_the_start_is_found_when_it_comes(
    key_server: KeyServer, make_verifier: MakeVerifier
) -> None:
    key_server.serve(jwks(OLD))
    key_server.kill()
    verifier = make_verifier(key_server.url(), cooldown=0.05)
    await verifier.start()
    assert (await verifier.verify(OLD.token())).status == "unavailable"
    assert verifier.report()["state"] == "unavailable"
    key_server.start()
    await wait_until(lambda: only_cache(verifier).loaded)
    assert (await verifier.verify(OLD.token())).status == "verified"


async def test_a_compression_bomb_is_not_unpacked(one_key_server: KeyServer, make_verifier: MakeVerifier) -> None:
    packed = gzip.compress(b" " * 50_000_000).decode("latin-1")
    one_key_server.serve(packed, headers={"content-encoding": "gzip"})
    outcome = await make_verifier(one_key_server.url()).verify(OLD.token())
    assert "compressed" in outcome.reason


async def test_closing_leaves_nothing_behind(
    one_key_server: KeyServer, make_verifier: MakeVerifier, tireless: None
) -> None:
    one_key_server.serve(jwks(OLD))
    one_key_server.misbehave("hang")
    before: set[asyncio.Task[Any]] = asyncio.all_tasks()
    verifier = make_verifier(one_key_server.url())
    await verifier.start()
    await verifier.verify(OLD.token())
    await verifier.aclose()
    assert asyncio.all_tasks() == before
