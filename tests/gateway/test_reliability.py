"""Retries by class, backoff, Retry-After, fallbacks, and the one idempotency key of all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from coordinator.settings.sections.gateway.executor import Executor
from coordinator.store import Store
from coordinator.toolsets.flows.store.flows import FlowStore
from coordinator.toolsets.gateway import run_kind
from coordinator.toolsets.gateway.rules.calls import key_of
from coordinator.toolsets.gateway.rules.guards import Principal
from coordinator.toolsets.gateway.rules.task import Task
from tests.gateway.lab import Json, Lab, states
from tests.gateway.web import Web
from tests.gateway.workflows import Working, api, capability, sh

pytestmark = pytest.mark.anyio


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as web:
        yield web


def get(**more: object) -> Json:
    return capability({"kind": "rest", "connection": "api", "path": "/x", "method": "POST"}, **more)


async def refused(lab: Lab, name: str) -> Json:
    found = await lab.refused("workflow.start", definitionId="proxy_default", input={"capability": name, "x": 1})
    assert found["error"]["code"] == "EXECUTOR_FAILED"
    return found


def keys_of(web: Web) -> set[str]:
    return {headers["idempotency-key"] for _, _, headers, _ in web.seen}


async def test_transient_failures_are_retried_with_one_key(working: Working, web: Web) -> None:
    lab = await working(connections=api(web), capabilities={"get": get(reliability={"retry": {"maxAttempts": 3}})})
    web.answers += [(503, {}, b""), (500, {}, b"")]
    answer = await lab.call("get", x=1)
    assert answer["context"]["lastResult"]["status"] == 200
    assert len(web.seen) == 3
    assert len(keys_of(web)) == 1
    retrying = [entry for entry in await lab.audit(answer) if entry.type == "executor.retrying"]
    assert [entry.payload["attempt"] for entry in retrying] == [1, 2]
    assert {entry.payload["failure"]["type"] for entry in retrying} == {"transient_error"}


async def test_attempts_are_limited_and_the_last_failure_is_shown(working: Working, web: Web) -> None:
    lab = await working(connections=api(web), capabilities={"get": get(reliability={"retry": {"maxAttempts": 2}})})
    web.answers += [(503, {}, b""), (500, {}, b""), (200, {}, b"")]
    found = await refused(lab, "get")
    assert "status 500" in found["error"]["message"]
    assert len(web.seen) == 2


@pytest.mark.parametrize(
    ("status", "retry_on", "attempts"),
    [
        (404, None, 1),
        (429, None, 3),
        (408, None, 3),
        (503, ["timeout"], 1),
        (404, ["permanent_error"], 3),
    ],
)
async def test_only_the_classes_of_the_policy_are_retried(
    working: Working, web: Web, status: int, retry_on: list[str] | None, attempts: int
) -> None:
    retry: Json = {"maxAttempts": 3, **({"retryOn": retry_on} if retry_on else {})}
    lab = await working(connections=api(web), capabilities={"get": get(reliability={"retry": retry})})
    web.answers += [(status, {}, b"")] * 3
    await refused(lab, "get")
    assert len(web.seen) == attempts


@pytest.mark.parametrize(("retry_on", "attempts"), [(["transient_error"], 1), (["timeout"], 2)])
async def test_an_attempt_that_the_worker_stops_is_retried_as_a_timeout(
    working: Working, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, retry_on: list[str], attempts: int
) -> None:
    # As when an executor does not end within its own timeout.
    monkeypatch.setattr(run_kind, "GRACE_MS", -59_500)
    script = sh('echo >> "$1"; exec sleep 60', str(tmp_path / "began"))
    stated = {"timeoutMs": 60_000, "retry": {"maxAttempts": 2, "retryOn": retry_on}}
    lab = await working(capabilities={"slow": capability(script, reliability=stated)})
    found = await refused(lab, "slow")
    assert found["error"]["details"]["errorClass"] == "timeout"
    assert len((tmp_path / "began").read_text()) == attempts


async def test_without_a_policy_nothing_is_retried(working: Working, web: Web) -> None:
    lab = await working(connections=api(web), capabilities={"get": get()})
    web.answers += [(503, {}, b"")]
    await refused(lab, "get")
    assert len(web.seen) == 1


@pytest.mark.parametrize(("backoff", "least"), [("none", 0.0), ("fixed", 0.45), ("exponential", 0.7)])
async def test_backoff(working: Working, web: Web, backoff: str, least: float) -> None:
    retry = {"maxAttempts": 3, "backoff": backoff, "initialDelayMs": 300}
    lab = await working(connections=api(web), capabilities={"get": get(reliability={"retry": retry})})
    web.answers += [(503, {}, b""), (503, {}, b"")]
    began = time.monotonic()
    await lab.call("get", x=1)
    assert least <= time.monotonic() - began <= 30.0


async def test_retry_after_is_respected(working: Working, web: Web) -> None:
    lab = await working(
        connections=api(web),
        capabilities={"get": get(reliability={"retry": {"maxAttempts": 2, "maxDelayMs": 1000}})},
    )
    web.answers += [(429, {"retry-after": "600"}, b"")]
    began = time.monotonic()
    await lab.call("get", x=1)
    assert 1.0 <= time.monotonic() - began < 30.0


def calling(executor: Json, **retry: object) -> Json:
    """A workflow with a transition that executes this, with these retries."""
    call = {"target": "b", "executor": executor, "output": {"child": "$.output"}, "reliability": {"retry": retry}}
    return states(a={"transitions": {"call": call}}, b={"terminal": True})


def child(script: str, *args: str) -> Json:
    """A workflow that succeeds if this script does."""
    run = {"actor": "deterministic", "target": "done", "executor": sh(script, *args)}
    return states(begin={"transitions": {"run": run}}, done={"terminal": True})


@pytest.mark.parametrize(("attempts", "state"), [(3, "b"), (2, "a")])
async def test_a_failed_sub_workflow_is_retried(working: Working, tmp_path: Path, attempts: int, state: str) -> None:
    third = child('echo >> "$1"; test $(wc -l < "$1") = 3', str(tmp_path / "began"))
    executor = {"kind": "workflow", "definitionId": "child"}
    lab = await working(
        workflows={"child": third, "w": calling(executor, maxAttempts=attempts, retryOn=["permanent_error"])}
    )
    started = await lab.start("w")
    await lab.reply("workflow.submit", **lab.link(started, "call"))
    assert (await lab.get(started))["state"] == state
    audit = await lab.audit(started)
    children = [entry.payload["workflowId"] for entry in audit if entry.type == "sub_workflow.started"]
    assert len(set(children)) == len(children) == attempts
    retrying = [entry.payload for entry in audit if entry.type == "executor.retrying"]
    assert [one["attempt"] for one in retrying] == [*range(1, attempts)]
    assert all(one["failure"]["type"] == "permanent_error" for one in retrying)
    assert [entry.type for entry in audit].count("executor.failed") == (state == "a")


async def test_a_timed_out_sub_workflow_is_retried_after_the_backoff(working: Working) -> None:
    waits = states(asks={"transitions": {"answer": {"target": "done"}}}, done={"terminal": True})
    executor = {"kind": "workflow", "definitionId": "child", "timeoutMs": 100}
    lab = await working(
        workflows={"child": waits, "w": calling(executor, maxAttempts=2, backoff="fixed", initialDelayMs=500)}
    )
    started = await lab.start("w")
    refused = await lab.follow_refused(started, "call")
    assert refused["error"]["details"]["errorClass"] == "timeout"
    audit = await lab.audit(started)
    begun = [entry for entry in audit if entry.type == "sub_workflow.started"]
    assert [entry.type for entry in audit].count("sub_workflow.timed_out") == len(begun) == 2
    (delay,) = [entry.payload["delayMs"] for entry in audit if entry.type == "executor.retrying"]
    assert 400 <= delay <= 600


async def test_only_sub_workflows_that_fail_with_a_class_of_the_policy_are_retried(working: Working) -> None:
    executor = {"kind": "workflow", "definitionId": "child"}
    lab = await working(workflows={"child": child("exit 1"), "w": calling(executor, maxAttempts=3)})
    started = await lab.start("w")
    await lab.follow_refused(started, "call")
    assert [entry.type for entry in await lab.audit(started)].count("sub_workflow.started") == 1


async def test_a_failed_flow_is_retried(working: Working, store: Store, project: str) -> None:
    bad = {"start": {"name": "bad", "tool": "query_items", "args": {"operation": "nonsense"}, "done": True}}
    executor = {"kind": "flow", "flow": bad}
    lab = await working(workflows={"w": calling(executor, maxAttempts=2, retryOn=["permanent_error"])})
    started = await lab.start("w")
    refused = await lab.follow_refused(started, "call")
    assert "step 'bad' failed" in refused["error"]["message"]
    flows = (await FlowStore(store, lab.settings).list(project, limit=10)).rows
    assert [flow.status for flow in flows] == ["failed", "failed"]
    audit = await lab.audit(started)
    assert [entry.type for entry in audit].count("executor.retrying") == 1


async def test_fallbacks_take_over_with_the_same_key(working: Working, web: Web, tmp_path: Path) -> None:
    note = sh('echo "$IDEMPOTENCY_KEY" >> "$1"; exit 1', str(tmp_path / "keys"))
    other = {"kind": "rest", "connection": "api", "path": "/other", "method": "POST"}
    lab = await working(
        connections=api(web),
        capabilities={
            "work": capability(
                note,
                reliability={"retry": {"maxAttempts": 2, "retryOn": ["permanent_error"]},
                             "fallback": {"executors": [note, other]}},
            )
        },
    )  # fmt: skip
    answer = await lab.call("work", x=1)
    assert answer["context"]["lastResult"]["body"]["path"] == "/v1/other"
    written = (tmp_path / "keys").read_text().split()
    assert len(written) == 4
    assert {*written} == keys_of(web)
    types = [entry.type for entry in await lab.audit(answer)]
    assert types.count("executor.failed") == 2
    assert types.count("executor.retrying") == 2
    assert types.count("fallback.selected") == 1
    # The evidence is that of the successful one.
    assert [one["kind"] for one in answer["evidence"]] == ["rest_call"]


async def test_if_all_fallbacks_fail_the_instance_is_unchanged(working: Working) -> None:
    lab = await working(
        workflows={"w": states(a={"transitions": {"go": {
            "target": "b", "executor": sh("exit 1"),
            "reliability": {"fallback": {"executors": [sh("echo last >&2; exit 2")]}}}}}, b={"terminal": True})}
    )  # fmt: skip
    started = await lab.start("w")
    found = await lab.follow_refused(started, "go")
    assert "code 2: last" in found["error"]["message"]
    assert (await lab.get(started))["version"] == 1
    # The same version may be submitted again.
    assert (await lab.follow_refused(started, "go"))["error"]["code"] == "EXECUTOR_FAILED"


async def test_idempotency_keys_follow_the_template(working: Working, web: Web) -> None:
    def keyed(key: object) -> Json:
        return capability({"kind": "rest", "connection": "api", "path": "/x", "method": "POST", "idempotencyKey": key})

    lab = await working(
        connections=api(web),
        capabilities={"plain": keyed(True), "made": keyed("k-{workflowId}-{transition}"), "none": keyed(False)},
    )
    plain = await lab.call("plain", x=1)
    made = await lab.call("made", x=1)
    await lab.call("none", x=1)
    first, second, third = (headers.get("idempotency-key") for _, _, headers, _ in web.seen)
    correlation = next(entry.correlation_id for entry in await lab.audit(plain))
    assert first == f"{plain['workflowId']}.plain.{correlation}"
    assert second == f"k-{made['workflowId']}-made"
    assert third is None


async def test_keys_with_non_ascii_names_are_sent(working: Working, web: Web) -> None:
    request = {"kind": "rest", "connection": "api", "path": "/x", "method": "POST"}
    check = {"prüfen": {"target": "done", "executor": request}}
    workflow = states(open={"transitions": check}, done={"terminal": True})
    lab = await working(connections=api(web), workflows={"w": workflow})
    done = await lab.follow(await lab.start("w"), "prüfen")
    ((_, _, headers, _),) = web.seen
    assert headers["idempotency-key"].startswith(f"{done['workflowId']}.pr%C3%BCfen.cor_")


def test_each_hop_and_each_entry_has_its_own_key() -> None:
    executor = Executor(kind="noop", idempotency_key=True)
    task = Task(
        op="cor_1", kind="submit", workflow="wf_1", definition="w", principal=Principal(), state="a", version=3,
        transition="go", target="b",
    )  # fmt: skip
    assert key_of(executor, task) == "wf_1.go.cor_1"
    # A chain may take the same transition again.
    chained = replace(task, first_done=True)
    assert key_of(executor, chained) == "wf_1.go.cor_1.3"
    assert key_of(executor, replace(chained, phase="enter")) == "wf_1.go.cor_1.3.enter"
    # the call of a capability at the start of its session
    assert key_of(executor, replace(chained, kind="start", version=1)) == "wf_1.go.cor_1"
    # the first state and the next one, while the version is still 1
    named = Executor(kind="noop", idempotency_key="{workflowId}")
    first = replace(task, kind="start", version=1, transition="", phase="enter")
    assert key_of(named, first) == "wf_1.enter"
    assert key_of(named, replace(first, first_done=True, transition="go")) == "wf_1.1.enter"
