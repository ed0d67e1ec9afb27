"""Results that have no room in the context: what workflows and callers see of them, and how they are read whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Store, keys
from coordinator.toolsets.gateway.rules.results import MAX_CONTEXT, MOST_KEPT
from coordinator.toolsets.gateway.store.instances import InstanceStore
from coordinator.toolsets.gateway.tools import results
from coordinator.toolsets.pages import ANSWER_CHARS
from coordinator.toolsets.tool import Call, Reply
from tests.gateway.conftest import MakeLab
from tests.gateway.lab import Json, Lab, states
from tests.gateway.web import Web
from tests.gateway.workflows import Working, api, capability, sh
from tests.support.downstream import raw
from tests.support.schemas import decoded

pytestmark = pytest.mark.anyio

PRINTS = sh("head -c $1 /dev/zero | tr '\\0' x", "$.arguments.size")
"""A command that prints so many x."""
CUT = {"kind": "expr", "expr": "$.context.text.truncated == true"}
AUTOMATIC = {"actor": "deterministic"}


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as web:
        yield web


def printing(key: str = "text", **more: Any) -> Json:
    return {"target": "a", "executor": PRINTS, "output": {key: "$.output.stdout"}, **more}


async def pages(lab: Lab, answer: Json, key: str) -> tuple[str, list[Json]]:
    """The text of a kept value, by following links; and the content beside it."""
    text = ""
    more: list[Any] = []
    (link,) = [one for one in answer["links"] if one["rel"] == "result" and one["args"]["result"] == key]
    while True:
        assert link["method"] == "workflow.get"
        tool = lab.tools["workflow.get"]
        reply = await tool.handler(Call(lab.project), decoded(tool, link["args"]))
        assert isinstance(reply, Reply)
        more += reply.blocks
        page = await lab("workflow.get", **link["args"])
        assert len(json.dumps(page, ensure_ascii=False)) < 60_000
        assert page["offset"] == len(text.encode())
        text += page["text"]
        following = [one for one in page["links"] if one["rel"] == "next"]
        if not following:
            assert "nextOffset" not in page
            assert page["total"] == len(text.encode())
            return text, more
        (link,) = following
        assert link["args"]["offset"] == page["nextOffset"] == len(text.encode())


async def wrong(lab: Lab, answer: Json, **asked: Any) -> str:
    with pytest.raises(ToolFailure) as refused:
        await lab("workflow.get", workflowId=answer["workflowId"], **asked)
    assert refused.value.code == "VALIDATION_ERROR"
    return refused.value.message


def of_results(answer: Json) -> list[str]:
    """The keys that an answer offers to read."""
    return [one["args"]["result"] for one in answer["links"] if one["rel"] == "result"]


async def test_branches_guards_and_chains_see_the_cut_value(working: Working) -> None:
    lab = await working(
        workflows={"w": states(
            a={"transitions": {"long": printing(branches=[{"when": CUT, "target": "b"}], target="wrong")}},
            b={"onEnter": {"executor": PRINTS, "output": {"entered": "$.context.text.bytes"}},
               "transitions": {"on": {"target": "c", **AUTOMATIC, "guards": [CUT],
                                      "output": {"size": "$.context.text.bytes"}}}},
            c={"terminal": True}, wrong={"terminal": True},
        )}
    )  # fmt: skip
    given: Json = {"requestId": "r-1", **lab.link(await lab.start("w"), "long", size=300_000)}
    done = await lab("workflow.submit", **given)
    assert (done["state"], done["version"]) == ("c", 3)
    whole = '"' + "x" * 300_000 + '"'
    cut = {"truncated": True, "bytes": 300_002, "beginning": whole[:16_384]}
    assert done["context"] == {"text": cut, "size": 300_002, "entered": 300_002}
    assert await pages(lab, done, "text") == (whole, [])
    page = await lab("workflow.get", workflowId=done["workflowId"], result="text")
    assert (page["version"], page["total"]) == (2, 300_002)
    (event,) = [entry for entry in await lab.audit(done) if entry.type == "context.cut"]
    assert event.payload == {"transition": "long", "key": "text", "bytes": 300_002, "kept": True}
    assert await lab("workflow.submit", **given) == done


async def test_what_is_kept_is_what_the_context_refers_to(working: Working, store: Store, project: str) -> None:
    names = [f"k{n}" for n in range(MOST_KEPT + 1)]
    small = {"target": "a", "output": {"k4": "small"}}
    lab = await working(workflows={"w": states(a={"transitions": {
        **{name: printing(name) for name in names}, "small": small, "twice": {"target": "a", "output": {"copy":
        "$.context.k3", "k3": "$.context.k3"}}, "end": {"target": "end"}}}, end={"terminal": True})})  # fmt: skip
    at = await lab.start("w")
    for n, name in enumerate(names):
        at = await lab.follow(at, name, size=300_000 + n)
    assert of_results(at) == names[1:]
    assert at["context"]["k0"]["bytes"] == 300_002
    assert "is not kept any more" in (told := await wrong(lab, at, result="k0"))
    assert told.endswith("there are: k1, k2, k3, k4") or "did you mean" in told
    assert (await pages(lab, at, "k2"))[0] == '"' + "x" * 300_002 + '"'
    # The last one of a key counts.
    at = await lab.follow(at, "k1", size=400_000)
    assert of_results(at) == ["k2", "k3", "k4", "k1"]
    assert (await pages(lab, at, "k1"))[0] == '"' + "x" * 400_000 + '"'
    # A copy is no value of its own, and leaves that of the same key as it is.
    at = await lab.follow(at, "twice")
    assert at["context"]["copy"] == at["context"]["k3"]
    assert of_results(at) == ["k2", "k3", "k4", "k1"]
    at = await lab.follow(at, "small")
    assert of_results(at) == ["k2", "k3", "k1"]
    assert "is not cut: the context has all of it" in await wrong(lab, at, result="k4")
    assert "the context has no 'zzz'; there are: k2, k3, k1" in await wrong(lab, at, result="zzz")
    name = at["workflowId"]
    stored = [await store.command("STRLEN", keys.gate_result.key(project, f"{name}_{n}")) for n in range(1, 6)]
    assert sorted(stored) == [0, 0, 300_004, 300_005, 400_002]
    # Also when it has ended; and it is deleted with it.
    ended = await lab.follow(at, "end")
    assert (of_results(ended), len(ended["links"])) == (["k2", "k3", "k1"], 3)
    await store.command("ZADD", keys.gate_expiry.key(project), 1, name)
    assert await InstanceStore(store, lab.settings).forget(project, 100) == (1, False)
    assert await store.command("KEYS", f"fc:{{{project}}}:*{name}*") == []
    assert (await lab.refused("workflow.get", workflowId=name, result="k1"))["error"]["code"] == "WORKFLOW_NOT_FOUND"


async def test_a_value_that_is_too_large_is_cut_for_good(working: Working) -> None:
    nest = {"concat": ["$.output.stdout"] * 5}
    lab = await working(workflows={"w": states(a={"transitions": {"long": printing(output={"text": nest})}})})
    at = await lab.follow(await lab.start("w"), "long", size=1_000_000)
    cut = at["context"]["text"]
    assert (cut["truncated"], cut["bytes"], cut["kept"]) == (True, 5_000_002, False)
    assert cut["beginning"] == '"' + "x" * 16_383
    assert of_results(at) == []
    assert await wrong(lab, at, result="text") == (
        "result: 'text' had 5000002 bytes; of more than 4194304 only the beginning in the context is kept"
        "; there are: none"
    )


async def test_pages_are_asked_for_correctly(working: Working, make_lab: MakeLab, store: Store) -> None:
    lab = await working(workflows={"w": states(a={"transitions": {"long": printing()}})})
    at = await lab.follow(await lab.start("w"), "long", size=300_000)
    first = await lab("workflow.get", workflowId=at["workflowId"], result="text")
    assert len(msgspec.json.encode(first["text"])) <= ANSWER_CHARS + 2
    assert await lab("workflow.get", workflowId=at["workflowId"], result="text", offset=0) == first
    assert (
        await wrong(lab, at, result="text", offset=300_002)
        == "offset: must be less than 300002, the bytes of this text"
    )
    assert await wrong(lab, at, offset=1) == "offset: needs result"
    for more in ({"waitMs": 1, "waitFor": "ended"}, {"waitFor": "ended"}, {"after": "v0"}):
        assert await wrong(lab, at, result="text", **more) == "result: goes without waitFor, waitMs and after"
    elsewhere = Lab(store, f"{lab.project}x", lab.settings)
    refused = await elsewhere.refused("workflow.get", workflowId=at["workflowId"], result="text")
    await elsewhere.close()
    assert refused["error"]["code"] == "WORKFLOW_NOT_FOUND"


async def test_a_page_is_never_of_another_value(working: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be replaced between the read of the instance and that of the page."""
    lab = await working(workflows={"w": states(a={"transitions": {"long": printing()}})})
    at = await lab.follow(await lab.start("w"), "long", size=300_000)
    read, left, replaces = InstanceStore.read, 1, False

    async def replacing(self: InstanceStore, *args: Any) -> Any:
        nonlocal left, at, replaces
        found = await read(self, *args)
        if left and not replaces:
            left, replaces = left - 1, True
            at = await lab.follow(at, "long", size=300_001)
            replaces = False
        return found

    monkeypatch.setattr(InstanceStore, "read", replacing)
    page = await lab("workflow.get", workflowId=at["workflowId"], result="text")
    assert (page["version"], page["total"]) == (3, 300_003)
    left = results.ROUNDS
    with pytest.raises(ToolFailure, match="repeat the call"):
        await lab("workflow.get", workflowId=at["workflowId"], result="text")


async def test_what_was_carried_out_is_said_to_have_been(working: Working) -> None:
    """What was there before leaves no room: the answer, the last failure and the audit agree."""
    fills = {"target": "a", "output": {"fill": {"set": "x" * (MAX_CONTEXT - 30)}}}
    chained = {"target": "b", "output": {"fill": {"set": "x" * (MAX_CONTEXT - 30)}}}
    lab = await working(workflows={"w": states(
        a={"transitions": {"fill": fills, "long": printing(), "chained": chained,
                           "small": {"target": "a", "output": {"text": {"set": "more than there is room for"}}}}},
        b={"transitions": {"on": {**printing(), **AUTOMATIC, "executor": sh("head -c 300000 /dev/zero")}}},
    )})  # fmt: skip
    at = await lab.follow(await lab.start("w"), "fill")
    refused = await lab.follow_refused(at, "long", size=300_000)
    error = refused["error"]
    assert error["code"] == "EXECUTOR_FAILED"
    assert error["details"] == {"errorClass": "permanent_error", "carriedOut": True}
    assert error["message"].startswith(
        "The call of transition 'long' was carried out, but its result cannot be used: the context would have"
    )
    assert error["message"].endswith("allowed: at most 262144")
    now = await lab.get(at)
    assert now["lastFailure"]["message"] == error["message"]
    assert (now["version"], now["context"]) == (at["version"], at["context"])
    *_, succeeded, failed = await lab.audit(at)
    assert (succeeded.type, failed.type) == ("executor.succeeded", "transition.failed")
    assert (failed.payload["message"], failed.payload["carriedOut"]) == (error["message"], True)
    # Nothing was called that could have had an effect.
    refused = await lab.follow_refused(at, "small")
    assert refused["error"]["message"].startswith("The result of transition 'small' cannot be used: the context would")
    assert "carriedOut" not in refused["error"]["details"]
    # In a chain.
    at = await lab.start("w")
    refused = await lab.follow_refused(at, "chained")
    assert refused["error"]["details"] == {
        "errorClass": "permanent_error", "carriedOut": True, "chain": True, "attemptedTransition": "on"
    }  # fmt: skip
    assert [entry.type for entry in await lab.audit(at)][-3:] == [
        "executor.succeeded",
        "transition.failed",
        "chain.failed",
    ]
    assert (await lab.get(at))["lastFailure"]["message"] == refused["error"]["message"]


async def test_what_precedes_a_failed_entry_is_said_to_have_been_carried_out(working: Working) -> None:
    lab = await working(workflows={"w": states(
        a={"transitions": {"go": {"target": "b", "executor": sh("echo")}, "move": {"target": "b"}}},
        b={"onEnter": {"executor": sh("exit 3")}, "terminal": True},
    )})  # fmt: skip
    at = await lab.start("w")
    refused = await lab.follow_refused(at, "go")
    assert refused["error"]["message"].endswith("(The executor of transition 'go' was carried out before.)")
    assert refused["error"]["details"]["carriedOut"] is True
    refused = await lab.follow_refused(at, "move")
    assert "carried out" not in refused["error"]["message"]
    assert "carriedOut" not in refused["error"]["details"]


@pytest.mark.parametrize("tool", ["odd", "last", "string"])
async def test_an_answer_that_cannot_be_used_is_one_to_a_call_that_was_carried_out(working: Working, tool: str) -> None:
    """A result that is none, structured content that breaks its schema, a message that is none."""
    server = msgspec.to_builtins(raw("flawed"))
    executor = {"kind": "mcp", "connection": "down", "tool": tool}
    policy = {"retry": {"maxAttempts": 3, "initialDelayMs": 1, "retryOn": ["permanent_error"]}}
    use = capability(executor, reliability=policy)
    lab = await working(connections={"down": server}, capabilities={"use": use})
    session = await lab.start("proxy_default", capability="use")
    refused = await lab.follow_refused(session, "use", x=1)
    told = refused["error"]["message"]
    assert "failed: the call was carried out, but its answer cannot be used: " in told
    assert refused["error"]["details"] == {"errorClass": "permanent_error", "carriedOut": True}
    assert (await lab.get(session))["lastFailure"]["message"] == told
    (failed,) = [entry for entry in await lab.audit(session) if entry.type == "executor.failed"]
    assert told.endswith(failed.payload["message"])
    assert "executor.retrying" not in [entry.type for entry in await lab.audit(session)], "no policy repeats the call"


async def test_an_answer_that_is_nested_too_deep_was_one(working: Working) -> None:
    deep = "[" * 150 + "]" * 150
    lab = await working(capabilities={"deep": capability(sh(f"echo '{deep}'"))})
    given = {"capability": "deep", "x": 1}
    refused = await lab.refused("workflow.start", definitionId="proxy_default", input=given)
    assert "was carried out, but its result cannot be used: the context would be nested" in refused["error"]["message"]


async def test_a_planner_that_fails_says_so(working: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = await working(workflows={"w": states(a={"transitions": {"long": printing()}})})
    monkeypatch.setattr("coordinator.toolsets.gateway.rules.planner.written", lambda output, scope: 1 / 0)
    refused = await lab.follow_refused(await lab.start("w"), "long", size=1)
    assert refused["error"]["message"] == (
        "The call of transition 'long' was carried out, but its result cannot be used: "
        "the next step could not be planned"
    )


async def test_only_a_cut_result_costs_more(working: Working, store: Store) -> None:
    lab = await working(workflows={"w": states(a={"transitions": {"long": printing()}})})

    async def cost(size: int) -> dict[str, int]:
        """The commands that scripts have run for a transition, besides those that depend on the moment."""
        at = await lab.start("w")
        await store.command("CONFIG", "RESETSTAT")
        await lab.follow(at, "long", size=size)
        stats = (await store.command("INFO", "commandstats")).decode()
        told = dict(
            line.removeprefix("cmdstat_").split(":", 1) for line in stats.split() if line.startswith("cmdstat_")
        )
        counted = {name: int(fields.split(",")[0].removeprefix("calls=")) for name, fields in told.items()}
        return {name: counted.get(name, 0) for name in ("set", "unlink", "getrange", "xadd", "rpush", "hset", "hdel")}

    small, large = await cost(10), await cost(300_000)
    assert small["unlink"] == small["getrange"] == large["getrange"] == 0
    # The value itself; and, as always, an entry of the audit.
    assert {name: large[name] - small[name] for name in small if large[name] != small[name]} == {
        "set": 1, "xadd": 1, "hset": 1
    }  # fmt: skip


async def test_no_part_of_a_secret_is_told_where_an_answer_is_cut(
    working: Working, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cret-token")
    most = 1024 * 1024
    script = f'head -c {most - 6} /dev/zero | tr "\\0" x; printf "$KEY and more"'
    printed, got = ({"end": f"$.output.{name}", "cut": "$.output.truncated"} for name in ("stdout", "body"))
    lab = await working(
        connections={
            "tool": {"kind": "cli", "command": "sh", "env": {"KEY": "${API_TOKEN}"}},
            **api(web, headers={"Authorization": "Bearer ${API_TOKEN}"}),
        },
        workflows={"w": states(a={"transitions": {
            "print": {"target": "a", "output": printed,
                      "executor": {"kind": "cli", "connection": "tool", "args": ["-c", script]}},
            "get": {"target": "a", "output": got, "executor": {"kind": "rest", "connection": "api", "path": "/x"}},
        }})},
    )  # fmt: skip
    at = await lab.start("w")
    for transition, last in (("print", "x***\n[truncated: 15 bytes more]"), ("get", "x***\n[truncated]")):
        web.answers.append((200, {}, b"x" * (most - 6) + b"s3cret-token and more"))
        at = await lab.follow(at, transition)
        assert at["context"]["cut"] is True
        page = await lab("workflow.get", workflowId=at["workflowId"], result="end", offset=most - 6)
        assert page["text"] == json.dumps(last)[1:]
