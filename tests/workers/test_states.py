"""Servers that keep states, under two workers: each owner gets its own state, or is told once that it is lost."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.settings.sections.connections import Connection
from coordinator.steps.model import Retry, StepRun
from coordinator.steps.run_kind import NotHere
from coordinator.store import keys
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.flows.rules import spec
from coordinator.toolsets.flows.run_kind import ToolCall
from tests.gateway.lab import NoChildren
from tests.support.servers import Server
from tests.support.stateful import StatefulHttp, stateful
from tests.support.wait import process_alive, wait_until
from tests.workers.conftest import MakePair
from tests.workers.fleet import chain
from tests.workers.pair import add, pids, words
from workers.run_kinds import make_run_kinds

pytestmark = pytest.mark.anyio


async def test_each_flow_has_its_own_state(make_pair: MakePair) -> None:
    pair = await make_pair()
    flows = [await pair.flows.create(chain(*(add(f"{n}{word}") for word in "abcd"))) for n in range(4)]
    ended = await pair.flows.ended(flows)
    for number, flow in enumerate(ended):
        all_words = [f"{number}{word}" for word in "abcd"]
        assert words(flow) == [all_words[: n + 1] for n in range(4)]
    assert len(set().union(*map(pids, ended))) == 4
    gone = [pid for flow in ended for pid in pids(flow)]
    await wait_until(lambda: not any(map(process_alive, gone)), what="the states end with their flows")


async def test_branches_of_a_flow_share_its_state_one_after_the_other(make_pair: MakePair) -> None:
    pair = await make_pair()
    flow: spec.Flow = {
        "start": spec.Step(name="start", **add("start"), parallel=("a", "b", "c")),
        **{key: spec.Step(name=key, **add(key), join="end", fork="start") for key in "abc"},
        "end": spec.Step(name="end", **add("end"), done=True),
    }
    (ended,) = await pair.flows.ended([await pair.flows.create(flow)])
    assert len(pids(ended)) == 1
    assert sorted(map(len, words(ended))) == [1, 2, 3, 4, 5]
    assert set(words(ended)[-1]) == {"start", "a", "b", "c", "end"}


async def test_a_shared_state_is_that_of_all_flows_and_callers(make_pair: MakePair) -> None:
    pair = await make_pair(stateful(state="shared"))
    first, second = await pair.ended(add("a")), await pair.ended(add("b"))
    assert (words(first), words(second)) == ([["a"]], [["a", "b"]])
    assert await pair.said("c") == ["a", "b", "c"]
    anonymous = await pair.lab.call("add", word="d")
    assert anonymous["context"]["lastResult"]["words"] == ["a", "b", "c", "d"]


async def test_each_caller_and_each_slot_has_its_own_state(make_pair: MakePair) -> None:
    pair = await make_pair()
    whos = [("ann", ""), ("bob", ""), ("ann", "ann/2"), ("ann", "/3")]
    for word in "xyz":
        answers = await asyncio.gather(*(pair.said(f"{who}{agent}{word}", who, agent) for who, agent in whos))
        for (who, agent), found in zip(whos, answers, strict=True):
            assert found == [f"{who}{agent}{one}" for one in "xyz"[: len(found)]]
            assert len(found) == "xyz".index(word) + 1
    assert (await pair.said("more", "ann", "/2"))[-2:] == ["annann/2z", "more"]


async def test_who_is_not_known_has_no_state(make_pair: MakePair) -> None:
    pair = await make_pair()
    body = await pair.lab.refused(
        "workflow.start", definitionId="proxy_default", input={"capability": "add", "word": "x"}
    )
    assert "needs an authenticated caller, or state: shared" in body["error"]["message"]
    with pytest.raises(ToolFailure, match="Fleet-Agent: must be absent or the caller's own"):
        await pair.said("x", "ann", "bob")


async def test_submits_of_a_session_use_the_state_of_who_submits(make_pair: MakePair) -> None:
    pair = await make_pair()
    session = await pair.lab.as_("ann").call("add")
    for number, who in enumerate(("ann", "bob", "ann")):
        session = await pair.lab.as_(who).follow(session, "add", word=str(number))
        assert session["context"]["lastResult"]["words"] == [["0"], ["1"], ["0", "2"]][number]


async def test_a_killed_server_loses_the_state(make_pair: MakePair) -> None:
    pair = await make_pair()
    await pair.said("x")
    lost = (await pair.lab.as_("ann").call("add", word="y"))["context"]["lastResult"]["pid"]
    os.kill(lost, signal.SIGKILL)
    await wait_until(lambda: not process_alive(lost))
    await pair.lost_once("z")
    assert await pair.said("u") == ["z", "u"]


async def test_a_call_during_which_the_server_dies_is_not_repeated_with_an_empty_state(make_pair: MakePair) -> None:
    pair = await make_pair()
    retry = Retry(max_attempts=5, delay_ms=1)
    ended = await pair.ended(add("a"), {"tool": "it.die", "retry": retry, "on_error": "continue"}, add("b"))
    (_, died, after) = ended.steps
    assert json.loads(died.result_json or "")["type"] == "state_lost"
    assert died.attempt == 2, "the attempt that has lost the connection, and the one that was not made"
    assert json.loads(after.result_json or "")["words"] == ["b"]


async def test_a_branch_can_test_whether_the_state_was_lost(make_pair: MakePair) -> None:
    pair = await make_pair()
    die = {"tool": "it.die", "on_error": "continue"}
    flow = chain(add("a"), die, add("b", on_error="continue"), add("{{steps.s2.result}}"))
    arms = (spec.Arm('result == "state_lost"', "s3"), spec.Arm("else", "s4"))
    flow["s2"] = msgspec.structs.replace(flow["s2"], next=None, branch=arms)
    flow["s4"] = spec.Step(name="s4", **add("wrong"), done=True)
    (ended,) = await pair.flows.ended([await pair.flows.create(flow)])
    assert ended.row.status == "completed"
    assert {step.key: step.status for step in ended.steps} == {
        "start": "done", "s1": "failed", "s2": "failed", "s3": "done"
    }  # fmt: skip
    assert json.loads(ended.steps[-1].result_json or "")["words"] == ["state_lost"]


async def test_it_fails_a_flow_that_does_not_expect_it(make_pair: MakePair) -> None:
    pair = await make_pair()
    ended = await pair.ended(
        add("a"), {"tool": "it.die", "on_error": "continue"}, add("b", retry=Retry(max_attempts=9))
    )
    assert ended.row.status == "failed"
    assert json.loads(ended.steps[-1].result_json or "")["type"] == "state_lost"
    assert ended.steps[-1].attempt == 1


async def test_a_state_ends_when_it_is_idle(make_pair: MakePair) -> None:
    pair = await make_pair()
    first = (await pair.lab.as_("ann").call("add", word="a"))["context"]["lastResult"]["pid"]
    uses = keys.state_uses.key(keys.FLEET, "it")
    (state,) = await pair.store.command("ZRANGE", uses, 0, -1)
    await pair.store.command("ZINCRBY", uses, -900_000, state)
    await wait_until(lambda: not process_alive(first), what="the process ends without a call")
    await pair.lost_once("b")


async def test_where_there_are_most_the_one_idle_longest_goes(make_pair: MakePair, tmp_path: Path) -> None:
    pair = await make_pair(stateful(state_most=2))
    for who in ("ann", "bob"):
        assert await pair.said("1", who) == ["1"]
    assert await pair.said("2", "ann") == ["1", "2"]
    assert await pair.said("1", "cyd") == ["1"], "that of bob has gone"
    await pair.lost_once("2", "bob")
    file = tmp_path / "go"
    holding = [asyncio.create_task(pair.said("3", who, tool="hold", path=f"{file}{who}")) for who in ("bob", "cyd")]
    for who in ("bob", "cyd"):
        await wait_until(Path(f"{file}{who}.begun").exists)
    assert await pair.failure("x", "dan") == "rate_limited"
    for who in ("bob", "cyd"):
        (tmp_path / f"go{who}").touch()
    assert await asyncio.gather(*holding) == [["2", "3"], ["1", "3"]]
    assert await pair.said("x", "dan") == ["x"]


async def test_states_of_flows_that_have_ended_make_room_first(make_pair: MakePair) -> None:
    pair = await make_pair(stateful(state_most=2))
    number = await pair.flows.create(chain(add("a"), {"tool": None, "gate": True}, add("b")))
    gate = await wait_until(lambda: pair.gate(number), what="the flow waits")
    for word in "xyz":
        assert words(await pair.ended(add(word))) == [[word]]
    await pair.flows.flows.release(pair.project, NO_KEY, gate, "alice")
    (ended,) = await pair.flows.ended([number])
    assert json.loads(ended.steps[-1].result_json or "").get("words") == ["a", "b"], ended


async def test_the_wait_for_a_turn_does_not_count(make_pair: MakePair, tmp_path: Path) -> None:
    pair = await make_pair()
    file = tmp_path / "go"
    hold: dict[str, Any] = {"tool": "it.hold", "args": {"word": "h", "path": str(file)}}
    flow: spec.Flow = {
        "start": spec.Step(name="start", parallel=("a", "b")),
        "a": spec.Step(name="a", **hold, join="end", fork="start"),
        "b": spec.Step(name="b", **add("b"), timeout_ms=5_000, delay_ms=300, join="end", fork="start"),
        "end": spec.Step(name="end", **add("end"), done=True),
    }
    number = await pair.flows.create(flow)
    await wait_until(Path(f"{file}.begun").exists)
    worker = pair.owner()

    def waits() -> bool:
        return any(one.step.key == "b" and not one.deadline for one in worker.engine.held.values())

    await wait_until(waits, what="the second call waits for its turn, with its timeout suspended")
    file.touch()
    (ended,) = await pair.flows.ended([number])
    assert json.loads(ended.steps[-1].result_json or "")["words"] == ["h", "b", "end"]


async def test_calls_of_a_parallel_state_are_made_at_once(make_pair: MakePair, tmp_path: Path) -> None:
    pair = await make_pair(stateful(state_parallel=True))
    file = tmp_path / "go"
    holding = asyncio.create_task(pair.said("held", tool="hold", path=str(file)))
    await wait_until(Path(f"{file}.begun").exists)
    assert await asyncio.gather(*(pair.said(word) for word in "ab")) in (
        [["a"], ["a", "b"]],
        [["b", "a"], ["b"]],
    )
    file.touch()
    assert set(await holding) == {"a", "b", "held"}


async def test_a_changed_connection_loses_the_states(make_pair: MakePair) -> None:
    pair = await make_pair()
    await pair.said("a")
    await pair.said("a", "bob")
    pair.configure(stateful("other"))
    for who in ("ann", "bob"):
        await pair.lost_once("b", who)
    found = await pair.lab.as_("ann").call("add", word="c")
    assert found["context"]["lastResult"]["name"] == "other"


async def test_a_worker_that_drains_gives_up_its_states(make_pair: MakePair) -> None:
    pair = await make_pair()
    await pair.said("a")
    owner = pair.owner()
    await owner.stop()
    pair.workers.remove(owner)
    await pair.lost_once("b")
    assert pair.owner() is not owner


async def test_the_states_of_a_worker_that_is_gone_are_lost(make_pair: MakePair) -> None:
    pair = await make_pair()
    await pair.said("a")
    owner = pair.owner()
    await owner.abandon()
    pair.workers.remove(owner)
    ann = pair.lab.as_("ann")
    asked_for = {"definitionId": "proxy_default", "input": {"capability": "add", "word": "b"}}
    waiting = asyncio.create_task(ann.reply("workflow.start", **asked_for))
    addressed = keys.step_addressed.key(pair.project)

    async def asked() -> Any:
        return await pair.store.command("EXISTS", addressed)

    await wait_until(asked, what="the step waits for the worker that is gone")
    await pair.store.command("ZADD", keys.state_leases.key(keys.FLEET), 1, owner.states.id)
    body, _ = await waiting
    settled = await ann.settled(body)
    assert "has lost the state" in settled["lastFailure"]["message"]
    assert await pair.said("b") == ["b"]
    await owner.close()


async def test_an_http_server_that_forgets_a_session_loses_the_state(make_pair: MakePair) -> None:
    with StatefulHttp() as http:
        pair = await make_pair(http.connection())
        assert await pair.said("a") == ["a"]
        assert await pair.said("b") == ["a", "b"]
        assert await pair.said("b", "bob") == ["b"]
        http.sessions.clear()
        await pair.lost_once("c")
        await pair.lost_once("c", "bob")
        assert await pair.said("d") == ["c", "d"]


async def test_who_has_used_no_state_yet_has_lost_none(make_pair: MakePair) -> None:
    with StatefulHttp() as http:
        pair = await make_pair(http.connection(state="shared"))
        assert await pair.said("a") == ["a"]
        http.sessions.clear()
        assert await pair.said("b", "bob") == ["b"]
        assert await pair.failure("c") == "state_lost"
        assert await pair.said("d") == ["b", "d"]


async def test_an_http_server_without_sessions_keeps_no_state(make_pair: MakePair) -> None:
    with StatefulHttp() as http:
        http.nameless = True
        pair = await make_pair(http.connection())
        for _ in range(2):
            body = await pair.lab.as_("ann").refused(
                "workflow.start", definitionId="proxy_default", input={"capability": "add", "word": "x"}
            )
            assert "keeps no state, because its server gives no session" in body["error"]["message"]
        failed = await pair.ended(add("a", retry=Retry(max_attempts=3)))
        assert (failed.row.status, failed.steps[0].attempt) == ("failed", 1)


async def test_a_server_that_does_not_start_loses_nothing(make_pair: MakePair, tmp_path: Path) -> None:
    script = tmp_path / "start"
    working = stateful()
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    pair = await make_pair(Connection(kind="mcp", command=str(script), state="session", env=working.env))
    assert await pair.failure("a") == "connection_error"
    script.write_text(f"#!/bin/sh\nexec {shlex.join([working.command, *working.args])}\n")
    assert await pair.said("a") == ["a"]


async def test_a_worker_that_is_drained_for_a_while_gives_up_its_states(make_pair: MakePair) -> None:
    pair = await make_pair()
    await pair.said("a")
    await pair.owner().states.give_up()
    await pair.lost_once("b")
    assert await pair.said("c") == ["b", "c"]


async def test_a_stock_worker_has_no_states(make_pair: MakePair) -> None:
    pair = await make_pair()
    kinds = make_run_kinds(pair.settings, pair.store, NoChildren())
    step = StepRun(pair.project, "flows", "10", "11", 1, "start", "", "", "", "", 0, 0, 0, 0, "")
    with pytest.raises(NotHere) as given_back:
        await kinds["flows"].executor.execute(step, ToolCall("it.add", {"word": "a"}))
    assert given_back.value.queue == ""


async def test_servers_that_keep_no_state_cost_nothing_more(
    make_pair: MakePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts: list[str] = []
    pair = await make_pair(stateful(state="none"))
    monkeypatch.setattr(pair.store, "observe", lambda script, *_: scripts.append(script))
    assert words(await pair.ended(add("a")))
    await pair.said("b")
    for worker in pair.workers:
        await worker.states.renew()
        await worker.states.end_those_over()
        engine = worker.steps.handoff.packed(pair.project)
        assert worker.states.queue.encode() not in engine
        assert b"fleet-steps" in engine
    assert {"create_flow", "report_steps", "report_hops"} <= set(scripts)
    assert not [one for one in scripts if one.endswith(("_state", "_states"))]


async def test_steps_go_to_the_owner_by_a_relay(make_pair: MakePair, server: Server) -> None:
    pair = await make_pair(queue_url=server.url)
    flows = [await pair.flows.create(chain(*(add(f"{n}{word}") for word in "abc"))) for n in range(3)]
    for number, flow in enumerate(await pair.flows.ended(flows)):
        assert words(flow)[-1] == [f"{number}{word}" for word in "abc"]
