"""A project is copied between real stores: both refuse it meanwhile, and whoever is killed leaves one that serves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from coordinator.cli.acting import user_at_host
from coordinator.cli.exits import Exit
from coordinator.doctor import items as doctor
from coordinator.errors import ToolFailure
from coordinator.feed import Cursor, FeedReader
from coordinator.feed.filters import Filter
from coordinator.projects import copying, transfer
from coordinator.projects.copying import Copy, abort, accept, turn
from coordinator.projects.counting import count
from coordinator.projects.errors import ProjectProblem
from coordinator.settings import Settings
from coordinator.store import keys
from coordinator.store.embedded.cluster import EmbeddedCluster
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.fences import copies
from coordinator.store.fences.copies import FenceLost, Fencing
from coordinator.store.fences.known import Fenced
from coordinator.store.projects.lists import ProjectList
from coordinator.store.signing_keys import SigningKeys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.live.expiring import Expiring
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.store.claims import ClaimStore
from tests.items.client import Client, actor, fresh_id
from tests.projects.pairs import Make, Pair, pairs
from tests.steps.rig import Player, Rig
from tests.support.fleets import fleet_command
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster"), 3, fsync="everysec") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def two_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedServer, EmbeddedServer]]:
    with (
        EmbeddedServer(tmp_path_factory.mktemp("one"), fsync="everysec") as one,
        EmbeddedServer(tmp_path_factory.mktemp("two"), fsync="everysec") as two,
    ):
        yield one, two


@pytest.fixture
async def pair(two_servers: tuple[EmbeddedServer, EmbeddedServer], cluster: EmbeddedCluster) -> AsyncIterator[Make]:
    """Makes a pair of stores: of ``one``, ``two`` and ``cluster``."""
    urls = {"one": two_servers[0].url, "two": two_servers[1].url, "cluster": cluster.url}
    async with pairs(urls) as make:
        yield make


@pytest.mark.parametrize(("source", "target"), [("one", "two"), ("one", "cluster"), ("cluster", "two")])
async def test_a_project_is_moved(pair: Make, source: str, target: str) -> None:
    both = await pair(source, target)
    ids = await both.here.add_many(20)
    await both.here.claim("a", ids[0])
    before = await both.names(both.source)
    said = await both.copy(deletes=True)
    assert "its audit agrees" in said
    assert await both.names(both.target) == before
    assert await both.names(both.source) == set()
    assert await both.serves(both.there)
    with pytest.raises(Fenced, match="was moved to another store, and is no longer here"):
        await both.here.add()
    assert await both.there.get(ids[0])
    report = await audit(both.target, both.project)
    assert not report.differences
    assert report.items == 21
    assert both.project in await ProjectList(both.target, "items").ages()
    assert both.project not in await ProjectList(both.source, "items").ages()
    assert await both.copy(deletes=True) == f"moved the project {both.project} to redis://target"


async def test_what_was_begun_goes_on(pair: Make) -> None:
    """Recorded answers, claims, flows, what was signed, and positions of webhooks."""
    both = await pair("one", "cluster")
    asked = {"requestId": "00000000-0000-4000-8000-000000000001", "actor": {"id": "a", "kind": "subagent"}}
    made = await both.here.create({"title": "once"}, **asked)
    item = made["items"][0]["id"]
    claimed = await both.here.claim("a", item)
    here, there = both.here.store, both.there.store
    rig, other = Rig(here, Settings()), Player(there, Settings(), "w2", queue=there)
    flow = await rig.create(project=both.project)
    signed = await SigningKeys(here).sign("p", b"token", both.project)
    assert await SigningKeys(there).verify("p", b"token", signed.mac, both.project) is None
    hook = keys.webhook.key(keys.FLEET, "hook")
    await here.command("HSET", hook, "p", both.project, "c", "1-1")
    await both.source.command_of(both.project, "SET", keys.request.key(both.project, "r"), "x", "PX", 600_000)
    await both.copy(deletes=True)
    assert await both.there.create({"title": "once"}, **asked) == made
    assert (await both.there.claim("b", item))["outcome"] == "already_claimed"
    assert (await both.there.claim("a", item))["fenceToken"] == claimed["fenceToken"]
    suspects = (await other.steps.sweep(both.project)).suspects
    await other.steps.push(both.project, await other.steps.missing(both.project, suspects), force=True)
    (popped,) = await other.steps.pop(5)
    (begun,) = (await other.steps.begin(both.project, [popped.job])).steps
    assert begun.run == str(flow)
    await other.steps.acknowledge(popped)
    assert await rig.worker.take(5) == []  # the job that stayed behind
    assert await SigningKeys(there).verify("p", b"token", signed.mac, both.project)
    assert await there.command("HGET", hook, "c") == b"1-1"
    left = await both.target.command_of(both.project, "PTTL", keys.request.key(both.project, "r"))
    assert 590_000 < left <= 600_000
    for store in (here, there):
        await store.command("DEL", hook)


async def test_nobody_looks_after_a_moved_project_where_it_was(pair: Make) -> None:
    """With a live claim, of which processes there know when it ends."""
    both = await pair("one", "two")
    await both.here.claim("a", (await both.here.add_many(1))[0])
    store, due = both.here.store, keys.due_projects.key(keys.FLEET)
    swept: list[str] = []

    async def sweep(project: str) -> tuple[int, int]:
        swept.append(project)
        return await ClaimStore(store, Settings(), SchemaSource()).expire(project)

    expiring = Expiring(store, sweep)
    expiring.expect(both.project, await store.time() + 1)
    await both.copy(deletes=True)
    with capture_logs() as logs:
        await expiring.start()
        await wait_until(lambda: both.project in swept, what="a look at what has ended")

        async def forgotten() -> bool:
            return await store.command("ZSCORE", due, both.project) is None

        await wait_until(forgotten, what="the end of it")
        await expiring.stop()
    assert [one for one in logs if one["log_level"] == "warning"] == []


async def test_a_copy_is_not_aborted_when_it_is_served(pair: Make) -> None:
    both = await pair("one", "two")
    await both.here.add()
    await both.copy(deletes=True)
    fence = keys.fence.key(both.project)
    value = await both.source.command_of(both.project, "GET", fence)
    await both.source.command_of(both.project, "SET", fence, value.replace(b"moved", b"leaving"))  # as after a failover
    with pytest.raises(ProjectProblem, match="was moved: it is at redis://target"):
        await abort(*both.ends, both.project)
    assert (await both.serves(both.here), await both.serves(both.there)) == (False, True)


async def test_a_copy_is_not_served_until_it_is_accepted(pair: Make) -> None:
    both = await pair("one", "cluster")
    await both.here.add_many(3)
    assert "it is served here, and not there unless it is accepted" in await both.copy()
    assert await both.serves(both.here)
    rows = {row.project: row for row in (await count(both.target)).rows}
    assert rows[both.project].fence == "copy, not served, of redis://source"
    with pytest.raises(Fenced, match="is a copy here, which is not served"):
        await both.there.add()
    assert not [one for one in [one async for one in doctor.check(both.there.store)] if both.project in one.said]
    await both.copy()  # the next day's
    assert len(await both.names(both.target)) == len(await both.names(both.source))
    with pytest.raises(ProjectProblem, match="the target has a copy of the project, which is not served"):
        await both.copy(deletes=True)
    _, there = both.ends
    said = f"the project {both.project} is served here; what redis://source has of it is another project from now on"
    assert await accept(there, both.project) == said
    assert await both.serves(both.there)
    with pytest.raises(ProjectProblem, match="is not refused here"):
        await accept(there, both.project)
    with pytest.raises(ProjectProblem, match="the target has a project"):
        await both.copy()


async def test_a_project_comes_back(pair: Make) -> None:
    both = await pair("one", "two")
    await both.here.add_many(3)
    await both.copy(deletes=True)
    back = Pair(both.target, both.source, both.there.store, both.here.store, both.project)
    await back.copy(deletes=True)
    assert await both.serves(both.here)
    assert not await both.serves(both.there)
    assert "is served here, and empty: nothing of it was left" in await accept(both.ends[1], both.project)


async def test_a_project_is_moved_on(pair: Make) -> None:
    """The store that had it first learns where it went from the second, and says so."""
    first, second = await pair("one", "two"), await pair("two", "cluster")
    second.project = first.project
    here, there = Client(second.here.store, first.project), Client(second.there.store, first.project)
    await first.here.add_many(3)
    await first.copy(deletes=True)
    await second.copy(deletes=True)
    said = "was moved to redis://target, which says: moved to redis://target; copy it from the store that serves it"
    for deletes in (True, False):
        with pytest.raises(ProjectProblem, match=said):
            await first.copy(deletes)
    with pytest.raises(ProjectProblem, match=said):
        await abort(*first.ends, first.project)
    onward = Pair(first.source, second.target, first.here.store, second.there.store, first.project)
    with pytest.raises(ProjectProblem, match="was moved to redis://target, not to --to: copy it from there"):
        await onward.copy(deletes=True)
    fence = keys.fence.key(first.project)
    moved = await first.source.command_of(first.project, "GET", fence)
    await first.source.command_of(
        first.project, "SET", fence, moved.replace(b"moved", b"leaving")
    )  # as after a failover
    for act in (first.copy(deletes=True), abort(*first.ends, first.project)):
        with pytest.raises(ProjectProblem, match=said):
            await act
    await first.source.command_of(first.project, "SET", fence, moved)
    assert [await first.serves(tools) for tools in (first.here, here, there)] == [False, False, True]
    home = Pair(second.target, first.source, second.there.store, first.here.store, first.project)
    await home.copy(deletes=True)
    await first.copy(deletes=True)
    assert [await first.serves(tools) for tools in (first.here, here, there)] == [False, True, False]


async def test_who_lost_a_project_refuses_it_although_it_does_not_come_back(
    pair: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = await pair("one", "two")
    await both.here.add_many(3)
    await both.copy(deletes=True)
    back = Pair(both.target, both.source, both.there.store, both.here.store, both.project)
    said = {row.project: row.fence for row in (await count(both.source)).rows}[both.project]

    async def refused() -> None:
        rows = {row.project: row.fence for row in (await count(both.source)).rows}
        assert rows[both.project] == said
        with pytest.raises(Fenced, match="was moved to another store"):
            await both.here.add()

    for where, step in ((Fencing, "begin"), (transfer, "compare")):
        with monkeypatch.context() as patched:
            patched.setattr(where, step, failing)
            with pytest.raises(ProjectProblem, match="it fails"):
                await back.copy(deletes=True)
        await refused()
    await back.copy()  # a back-up, which is deleted later
    async with turn(*both.ends):
        await abort(both.ends[0], None, both.project)
    await refused()
    assert await both.serves(both.there)
    await back.copy(deletes=True)
    assert await both.serves(both.here)


async def failing(*_: Any) -> None:
    raise ProjectProblem("it fails")


async def test_a_backup_is_brought_back(pair: Make) -> None:
    both = await pair("one", "two")
    ids = await both.here.add_many(3)
    await both.copy()
    await both.source.client.delete(*await both.names(both.source))
    back = Pair(both.target, both.source, both.there.store, both.here.store, both.project)
    assert "copied" in await back.copy()
    here, _ = both.ends
    await accept(here, both.project)
    assert await both.here.get(ids[0])


class Held:
    """Holds a copy up after its keys are copied."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.here, self.go = asyncio.Event(), asyncio.Event()
        compare = transfer.compare

        async def held(*args: Any) -> int:
            self.here.set()
            await self.go.wait()
            return await compare(*args)

        monkeypatch.setattr(transfer, "compare", held)


async def test_meanwhile_the_project_is_refused_and_others_go_on(pair: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    both, held = await pair("one", "two"), Held(monkeypatch)
    item = (await both.here.add_many(3))[0]
    other = Client(both.here.store, "other")
    copying_ = asyncio.ensure_future(both.copy(deletes=True))
    await held.here.wait()
    for tools, why in ((both.here, "is being copied to another store"), (both.there, "is being copied to this store")):
        for call in (tools.add(), tools.get(item), tools.claim("a", item), tools.next()):
            with pytest.raises(Fenced, match=why) as caught:
                await call
            assert (caught.value.kind, caught.value.retry_after_ms) == ("transient", 1000)
    assert await other.add()
    with pytest.raises(ProjectProblem, match="another command copies a project from or to redis://source right now"):
        await both.copy(deletes=True)
    held.go.set()
    await copying_
    assert await both.serves(both.there)
    await both.source.client.delete(*await transfer.Keys(Fencing(both.source), "other", "").names())


async def test_who_waits_is_told_of_a_move_and_feeds_of_others_go_on(
    pair: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, held = await pair("one", "two"), Held(monkeypatch)
    item = await both.here.add()
    store = both.here.store
    store.follow()
    other = Client(store, "other")
    await other.add()
    reader = FeedReader(store)
    listening = []
    for project in (both.project, "other"):
        found = await reader.position(project, None)
        listener = reader.listen(Cursor(project, found.epoch, found.position), Filter())
        assert await listener.take() == []
        listening.append(listener)
    waiting = [
        asyncio.ensure_future(both.here("claim_item", actor=actor("a"), claims=[{"selector": {"tags": "none"}}],
                                        waitMs=50_000, requestId=fresh_id())),
        asyncio.ensure_future(both.here("get_context", itemId=item, waitMs=50_000, waitFor="terminal")),
    ]  # fmt: skip
    await wait_until(lambda: both.here.room.settled and both.here.room.waiting == 1, 10, "the read to wait")
    copying_ = asyncio.ensure_future(both.copy(deletes=True))
    await held.here.wait()
    connects = store.link().connects
    store.link().recycle("has to be checked again")
    await wait_until(lambda: store.link().connects > connects, 10, "the link to connect again")
    await other.add("after")
    async with asyncio.timeout(10):
        events = await listening[1].take()
    assert len(events) == 1
    held.go.set()
    await copying_
    async with asyncio.timeout(20):
        for call in waiting:
            with pytest.raises(Fenced, match="was moved to another store"):
                await call
    for listener in listening:
        reader.close(listener)
    await reader.stop()
    await both.source.client.delete(*await transfer.Keys(Fencing(both.source), "other", "").names())


async def test_a_project_that_the_target_has_is_left_alone(pair: Make) -> None:
    both = await pair("one", "two")
    await both.here.add_many(2)
    await both.there.add_many(3)
    with pytest.raises(ProjectProblem, match="the target has a project"):
        await both.copy(deletes=True)
    assert await both.serves(both.here)
    assert await both.serves(both.there)
    assert (await audit(both.there.store, both.project)).items == 4


async def test_the_same_store_and_an_unwritten_project_are_refused(pair: Make) -> None:
    both = await pair("one", "two")
    with pytest.raises(ProjectProblem, match="there is no project"):
        await both.copy()
    here, _ = both.ends
    with pytest.raises(ProjectProblem, match="--to is the same store"):
        await Copy(here, here, both.source, both.project, False, print).run()


async def test_clocks_have_to_agree(pair: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    both = await pair("one", "two")
    await both.here.add()
    now = await both.target.time()

    async def ahead() -> int:
        return now + 60_000

    monkeypatch.setattr(both.target, "time", ahead)
    with pytest.raises(ProjectProblem, match=r"the clocks of the two stores differ by \d\d\.\d s"):
        await both.copy()
    assert await both.serves(both.here)


async def test_a_full_target_leaves_the_source_as_it_was(pair: Make) -> None:
    both = await pair("one", "two")
    await both.here.add_many(50, description="x" * 2000)
    info: Any = await both.target.client.info("memory")
    await both.target.client.config_set("maxmemory", info["used_memory"] + 100_000)
    try:
        with pytest.raises(ToolFailure, match="out of memory"):
            await both.copy(deletes=True)
    finally:
        await both.target.client.config_set("maxmemory", 0)
    assert await both.serves(both.here)
    assert "moved" in await both.copy(deletes=True)
    assert await both.serves(both.there)


async def test_a_copy_that_the_audit_objects_to_is_undone(pair: Make) -> None:
    both = await pair("one", "two")
    await both.here.add_many(2)
    await both.source.client.zadd(keys.abandoned.key(both.project), {"0" * 32: 1})
    with pytest.raises(ProjectProblem, match="the audit of the copy has found 1 differences"):
        await both.copy(deletes=True)
    assert await both.serves(both.here)
    assert await both.names(both.target) == set()


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        ((), 2, "say where to copy the project: --to URL"),
        (("--abort", "--delete-source"), 2, "give --abort or --delete-source, not both"),
        (("--abort",), 2, "no copy of the project nobody is under way"),
        (("--to", "redis://127.0.0.1:1"), 6, "--to: no usable store at redis://127.0.0.1:1/0"),
        (("--to", "http://x"), 2, "--to: "),
    ],
)
def test_what_cannot_be_is_explained(
    redis_url: str, tmp_path: Path, flags: tuple[str, ...], code: int, said: str
) -> None:
    env: dict[str, Any] = {"FLEET_DATA_DIR": str(tmp_path)}  # where nothing remembers another store
    done = fleet_command("project", "copy", "nobody", "--redis-url", redis_url, *flags, **env)
    assert done.returncode == code
    assert done.stderr.startswith(f"fleet: {said}")


def test_commands_on_whole_projects_are_in_the_audit_log(redis_url: str, project: str, tmp_path: Path) -> None:
    env: dict[str, Any] = {"FLEET_DATA_DIR": str(tmp_path), "FLEET_REDIS_URL": redis_url}
    for words in (("copy", project, "--abort"), ("copy", project, "--to", redis_url), ("accept", project)):
        assert fleet_command("project", *words, "--reason", "as agreed", **env).returncode == Exit.USAGE
    done = fleet_command("audit-log", "tail", "--json", "--project", project, **env)
    acts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["action"], one["outcome"], one["detail"]) for one in acts] == [
        ("abort_copy", "refused", f"no copy of the project {project} is under way"),
        ("copy_project", "refused", "--to is the same store"),
        ("accept_project", "refused", f"the project {project} is not refused here"),
    ]
    assert {(one["reason"], one["who"]["id"], one["target"]["id"]) for one in acts} == {
        ("as agreed", user_at_host(), project)
    }
    blank = fleet_command("project", "accept", project, "--reason", " ", **env)
    assert blank.stderr == "fleet: --reason: must be 1 to 500 characters, not blank\n"


class Killed(BaseException):
    """Ends a copy like SIGKILL: nothing is undone."""


def kill_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[str]:
    """Kills before the write with this number; returns the names of writes, as they come."""
    done: list[str] = []

    def wrapped(name: str, write: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def run(*args: Any, **named: Any) -> Any:
            done.append(name)
            if len(done) == step:
                raise Killed
            return await write(*args, **named)

        return run

    for where, names in ((Fencing, ("note", "begin", "put", "transact", "end")),
                         (transfer, ("publish", "withdraw", "bring_along"))):  # fmt: skip
        for name in names:
            monkeypatch.setattr(where, name, wrapped(name, getattr(where, name)))
    return done


MOVE, COPY = 24, 18
"""How many writes a copy of a small project makes, at least."""
QUICK = {
    *((True, 3, "again"), (True, 9, "abort"), (True, 12, "again"), (True, 14, "abort")),
    *((False, 3, "abort"), (False, 9, "again"), (False, 12, "abort"), (False, 14, "again")),
}
"""What ``make test`` tries: whether it moves, the step at which it is killed, and what comes then."""


@pytest.mark.parametrize(
    ("deletes", "step", "then"),
    [
        pytest.param(deletes, step, then, marks=() if (deletes, step, then) in QUICK else pytest.mark.chaos)
        for deletes, steps in ((True, MOVE), (False, COPY))
        for step in range(1, steps + 2)
        for then in ("again", "abort")
    ],
)
async def test_killed_at_any_step(
    pair: Make, monkeypatch: pytest.MonkeyPatch, deletes: bool, step: int, then: str
) -> None:
    """Never do both serve, one of them can, and nothing is lost."""
    both = await pair("one", "two")
    known, steps = set(await both.here.add_many(3)), MOVE if deletes else COPY
    with monkeypatch.context() as patched:
        done = kill_at(patched, step)
        try:
            await both.copy(deletes)
        except Killed:
            assert step <= steps, done
        else:
            assert len(done) == steps < step, done
    item = min(known)
    assert not (await both.has(both.here, item) and await both.has(both.there, item)), done
    if then == "abort" and not await both.has(both.there, item):
        async with turn(*both.ends):
            try:
                await abort(*both.ends, both.project)
            except ProjectProblem as failure:
                if "no copy of the project" not in str(failure):
                    raise
        assert await both.serves(both.here), done
        if deletes:
            assert not await both.names(both.target), done
    if deletes or not await both.has(both.there, item):
        await both.copy(deletes)
    serving, other = (both.there, both.here) if deletes else (both.here, both.there)
    assert await both.serves(serving), done
    assert not await both.serves(other), done
    for one in known:
        assert await serving.get(one)
    assert not (await audit(serving.store, both.project)).differences
    assert not (deletes and await both.names(both.source))
    for end in both.ends:
        assert not await end.fencing.looks(), done  # the usual functions are back


async def test_a_lost_connection_is_not_taken_for_a_lost_fence(
    pair: Make, two_servers: tuple[EmbeddedServer, EmbeddedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = await pair("one", "two")
    item = await both.here.add()
    transact = Fencing.transact

    async def cut(self: Fencing, project: str, identity: str, write: Callable[[Any], Any]) -> list[Any]:
        def while_it_watches(pipe: Any) -> None:
            with redis.Redis.from_url(two_servers[1].url) as other:
                other.execute_command("CLIENT", "KILL", "TYPE", "normal")
            write(pipe)

        return await transact(self, project, identity, while_it_watches if self.store is both.target else write)

    monkeypatch.setattr(Fencing, "transact", cut)
    with pytest.raises(ToolFailure, match="the store does not answer"):
        await both.copy(deletes=True)
    assert await both.has(both.here, item)
    monkeypatch.undo()


async def test_a_command_that_was_paused_does_no_harm(pair: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on after another one has taken over and is done."""
    both, held = await pair("one", "two"), Held(monkeypatch)
    await both.here.add_many(3)
    monkeypatch.setattr(copying, "LEASE_MS", 300)
    first = asyncio.ensure_future(Copy(*both.ends, both.target, both.project, True, print).run())
    await held.here.wait()
    monkeypatch.undo()
    fast = pytest.MonkeyPatch()
    fast.setattr(copies, "GRACE_SECONDS", 0.01)
    fast.setattr(copying, "HEARD_SECONDS", 0.2)
    try:
        await both.copy(deletes=True)
        await both.there.add()
        has = await both.names(both.target)
        held.go.set()
        with pytest.raises((FenceLost, ProjectProblem)):
            await first
    finally:
        fast.undo()
    assert await both.names(both.target) == has
    assert await both.serves(both.there)
