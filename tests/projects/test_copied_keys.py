"""A project that is moved takes along what verifies its tokens, and nothing with which others could be made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from coordinator.projects import transfer
from coordinator.projects.copying import abort, accept
from coordinator.projects.errors import ProjectProblem
from coordinator.settings.sections.workflows import Signing
from coordinator.store import Store, keys
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.signing_keys import SALT, SigningKeys
from tests.projects.pairs import Make, pairs

pytestmark = pytest.mark.anyio

GIVEN = Signing(keys=("mine:" + "11" * 32,))


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of two servers."""
    with (
        EmbeddedServer(tmp_path_factory.mktemp("one"), fsync="everysec") as one,
        EmbeddedServer(tmp_path_factory.mktemp("two"), fsync="everysec") as two,
    ):
        yield {"one": one.url, "two": two.url}


@pytest.fixture
async def pair(urls: dict[str, str]) -> AsyncIterator[Make]:
    async with pairs(urls) as make:
        yield make


async def secrets(store: Store, project: str) -> set[str]:
    """All keys for signatures that a store has."""
    of_fleet = await store.command_of(keys.FLEET, "HVALS", keys.signing_keys.key(keys.FLEET))
    values = [
        one.decode() for one in of_fleet + await store.command_of(project, "HVALS", keys.project_keys.key(project))
    ]
    return {value.rpartition(":")[2] for value in values}


@pytest.mark.parametrize("signing", [Signing(), GIVEN], ids=["own", "given"])
async def test_the_target_verifies_tokens_of_the_project_and_can_make_none_for_the_source(
    pair: Make, signing: Signing
) -> None:
    both = await pair("one", "two")
    here, there, project = both.here.store, both.there.store, both.project
    await both.here.add()
    mine, its = SigningKeys(here, signing.keys), SigningKeys(there)
    signed = await mine.sign("p", b"token", project)
    before = await secrets(there, project)
    assert await its.verify("p", b"token", signed.mac, project) is None
    await both.copy(deletes=True, signing=signing)
    assert await SigningKeys(there).verify("p", b"token", signed.mac, project)
    assert [await SigningKeys(there).verify("p", b"token", signed.mac, other) for other in ("", "q")] == [None, None]
    fleet = await mine.ring()
    learned = await secrets(there, project) - before
    assert {key.secret.hex() for key in fleet.of(project, "").keys("")} <= learned
    others = [fleet, fleet.of("q", ""), await mine.ring("q")]
    assert not {key.secret.hex() for ring in others for purpose in ("", "p") for key in ring.keys(purpose)} & learned
    # An operator begins another project of this name: the keys that have left are none of its.
    await accept(both.ends[0], project)
    await here.fences.look()
    for known in (mine, SigningKeys(here, signing.keys)):
        assert await known.verify("p", b"token", signed.mac, project) is None
        assert (await known.sign("p", b"token", project)).mac != signed.mac


async def test_a_move_that_is_ended_when_the_target_has_the_keys_leaves_the_source_with_others(
    pair: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = await pair("one", "two")
    here, there, project = both.here.store, both.there.store, both.project
    await both.here.add()
    mine = SigningKeys(here)
    signed = await mine.sign("p", b"token", project)

    async def fails(*_: object) -> None:
        raise ProjectProblem("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr(transfer, "publish", fails)
        with pytest.raises(ProjectProblem, match="interrupted"):
            await both.copy(deletes=True)
    learned = await secrets(there, project)
    await abort(*both.ends, project)
    assert await both.serves(both.here)
    await here.fences.look()
    for known in (mine, SigningKeys(here)):
        assert await known.verify("p", b"token", signed.mac, project) is None
        assert not {key.secret.hex() for key in (await known.ring(project)).keys("")} & learned


async def test_a_project_that_comes_back_has_new_keys_and_what_was_signed_anywhere_is_valid(pair: Make) -> None:
    both = await pair("one", "two")
    here, there, project = both.here.store, both.there.store, both.project
    await both.here.add()
    mine, its = SigningKeys(here), SigningKeys(there)
    first = await mine.sign("p", b"token", project)
    await both.copy(deletes=True)
    second = await its.sign("p", b"token", project)
    learned = await secrets(there, project)
    await both.turned().copy(deletes=True)
    await here.fences.look()
    third = await mine.sign("p", b"token", project)
    assert all([await mine.verify("p", b"token", one.mac, project) for one in (first, second, third)])
    assert third.mac not in (first.mac, second.mac)
    assert not {key.secret.hex() for key in (await mine.ring(project)).keys("")[:1]} & learned


async def test_a_copy_gets_no_keys(pair: Make) -> None:
    both = await pair("one", "two")
    there, project = both.there.store, both.project
    await both.there.add()
    await both.turned().copy(deletes=True)
    await both.copy()
    assert await there.command_of(project, "EXISTS", keys.project_keys.key(project)) == 0


async def test_keys_of_a_store_that_a_project_comes_from_verify_for_a_time(pair: Make) -> None:
    both = await pair("one", "two")
    here, there, project = both.here.store, both.there.store, both.project
    await both.here.add()
    signed = await SigningKeys(here).sign("p", b"token", project)
    await both.copy(deletes=True)
    name = keys.project_keys.key(project)
    for field in set(await there.command("HKEYS", name)) - {SALT.encode()}:
        _, _, secret = (await there.command("HGET", name, field)).partition(b":")
        await there.command("HSET", name, field, b"1:" + secret)  # their time is over
    assert await SigningKeys(there).verify("p", b"token", signed.mac, project) is None
