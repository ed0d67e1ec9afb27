"""Sessions with a single capability: ``proxy_default``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.store import Store, keys
from coordinator.toolsets.gateway import run_kind
from coordinator.toolsets.gateway.rules import checks
from coordinator.toolsets.gateway.rules.catalogue import Catalogue
from coordinator.toolsets.gateway.rules.links import Links
from coordinator.toolsets.gateway.store.audit import AuditStore
from coordinator.toolsets.gateway.store.instances import InstanceStore
from tests.gateway.conftest import MakeLab
from tests.gateway.lab import Json, Lab, Worker, section
from tests.gateway.workflows import Working, sh
from tests.items.moments import server_time

pytestmark = pytest.mark.anyio

CAPABILITIES = {
    "text.upper": {
        "title": "Upper case",
        "description": "Makes a text loud.",
        "inputSchema": {
            "type": "object",
            "required": ["text"],
            "properties": {"text": {"type": "string"}, "mark": {"type": "string", "default": "!"}},
            "additionalProperties": False,
        },
        "executor": sh('echo "$1$2" | tr a-z A-Z', "$.arguments.text", "$.arguments.mark"),
    },
    "text.shout": {"wraps": "text.upper", "guards": [{"kind": "role", "role": "loud"}]},
    "nothing": {"executor": {"kind": "noop"}},
    "broken": {"executor": sh("exit 9")},
    "broken.too": {"inputSchema": {"type": "object"}, "executor": sh("exit 9")},
}


@pytest.fixture
async def lab(working: Working) -> Lab:
    return await working(capabilities=CAPABILITIES)


async def test_with_arguments_it_is_called_at_once(lab: Lab) -> None:
    answer = await lab.call("text.upper", text="hi")
    assert (answer["definitionId"], answer["state"], answer["version"]) == ("proxy_default", "ready", 2)
    assert answer["context"]["lastResult"]["text"] == "HI!"
    assert answer["chain"] == [{"fromState": "ready", "transition": "text.upper", "toState": "ready", "version": 2}]
    (link,) = answer["links"]
    assert link["args"]["transition"] == "text.upper"
    assert link["input_schema"]["required"] == ["text"]
    again = await lab.follow(answer, "text.upper", text="again", mark="?")
    assert (again["version"], again["context"]["lastResult"]["text"]) == (3, "AGAIN?")


async def test_arguments_may_be_nested(lab: Lab) -> None:
    answer = await lab.start("proxy_default", capability="text.upper", arguments={"text": "hi"})
    assert answer["context"]["lastResult"]["text"] == "HI!"


NAMES: Json = {"capability": {"type": "string"}, "arguments": {}, "name": {}}
GIVEN = st.dictionaries(
    st.sampled_from([*NAMES, "x"]),
    st.recursive(
        st.sampled_from(["text.upper", 1, None, {}]),
        lambda inner: st.dictionaries(st.sampled_from([*NAMES, "x"]), inner, max_size=3),
        max_leaves=4,
    ),
    max_size=4,
)


@given(arguments=GIVEN, names=st.sets(st.sampled_from([*NAMES])))
def test_a_capability_gets_exactly_what_was_given(arguments: Json, names: set[str]) -> None:
    arguments = {**arguments, **({"capability": "mine"} if "capability" in arguments else {})}
    schema = {"type": "object", "properties": {name: NAMES[name] for name in sorted(names)}}
    catalogue = Catalogue(section(capabilities={"it": {"inputSchema": schema, "executor": {"kind": "noop"}}}))
    assert checks.called(catalogue, {"capability": "it", "arguments": arguments}).arguments == arguments
    nested = arguments.keys() == {"arguments"} and isinstance(arguments["arguments"], dict)
    if "capability" not in arguments and not nested:
        assert checks.called(catalogue, {"capability": "it", **arguments}).arguments == (arguments or None)
    (link,) = Links().start(catalogue.items["it"])
    link.args["input"].setdefault("arguments", {}).update(arguments)
    assert checks.called(catalogue, link.args["input"]).arguments == arguments


async def test_parameters_with_the_names_of_the_form_are_nested(working: Working) -> None:
    named: Json = {"type": "object", "properties": {"arguments": {"type": "object"}, "capability": {}, "name": {}}}
    lab = await working(capabilities={"meta": {"executor": {"kind": "noop"}, "inputSchema": named}})
    (described,) = (await lab("gateway.describe", id="meta"))["links"]
    (listed,) = (await lab("gateway.home"))["items"][0]["links"]
    (explained,) = (await lab("workflow.explain", definitionId="proxy_default", transition="meta"))["links"]
    assert listed == explained == {key: value for key, value in described.items() if key != "input_schema"}
    assert listed["args"] == {"definitionId": "proxy_default", "input": {"capability": "meta", "arguments": {}}}
    assert "belong in input.arguments" in listed["description"]
    tries: list[Json] = [{"arguments": {"z": 1}}, {"capability": "x", "arguments": {"arguments": {}}}, {}]
    for arguments in tries:
        answer = await lab.start("proxy_default", capability="meta", arguments=arguments)
        assert answer["context"]["lastResult"] == arguments
        again = await lab.follow(answer, "meta", **arguments)
        assert again["context"]["lastResult"] == arguments
    flat = await lab.start("proxy_default", capability="meta", name="n", arguments={"z": 1})
    assert flat["context"]["lastResult"] == {"name": "n", "arguments": {"z": 1}}
    refused = await lab.refused(
        "workflow.start", definitionId="proxy_default", input={"capability": "meta", "arguments": {"arguments": 1}}
    )
    assert "input.arguments.arguments: must be of type object" in refused["error"]["message"]


async def test_without_arguments_it_waits(lab: Lab) -> None:
    answer = await lab.start("proxy_default", capability="text.upper")
    assert (answer["state"], answer["version"], answer["context"]) == ("ready", 1, {})
    refused = await lab.follow_refused(answer, "text.upper")
    assert refused["error"]["code"] == "INPUT_SCHEMA_VIOLATION"
    assert (await lab.follow(answer, "text.upper", text="a"))["version"] == 2


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, "input.capability: is required"),
        ({"capability": 5}, "input.capability: is required"),
        ({"capability": "no.such"}, "input.capability: there is no capability 'no.such'"),
        ({"capability": "text.upper", "txt": "a"}, "input.text: is required"),
        ({"capability": "nothing", "x": 1}, "input.x: is not known; allowed: nothing"),
        ({"capability": "text.upper", "arguments": {"text": 5}}, "input.arguments.text: must be of type string"),
    ],
)
async def test_invalid_input_is_rejected_and_starts_nothing(lab: Lab, given: Json, place: str) -> None:
    refused = await lab.refused("workflow.start", definitionId="proxy_default", input=given)
    assert refused["error"]["code"] == "INPUT_SCHEMA_VIOLATION"
    assert place in refused["error"]["message"]
    assert refused["links"]
    assert [entry.type for entry in await lab.audit()] == ["transition.rejected"]


async def test_a_failing_call_leaves_the_session_ready(lab: Lab) -> None:
    opened = await lab.start("proxy_default", capability="broken")
    refused = await lab.follow_refused(opened, "broken")
    assert refused["error"]["code"] == "EXECUTOR_FAILED"
    assert (refused["state"], refused["version"]) == ("ready", 1)
    assert (await lab.get(opened))["version"] == 1


async def test_a_failed_call_at_the_start_can_be_repeated_by_one_link(lab: Lab) -> None:
    given = {"capability": "broken.too", "n": 1}
    refused = await lab.refused("workflow.start", definitionId="proxy_default", input=given)
    assert refused["error"]["code"] == "EXECUTOR_FAILED"
    assert [link["rel"] for link in refused["links"]] == ["self", "transition"]
    assert refused["links"][1]["args"]["transition"] == "broken.too"


async def test_guards_of_what_it_wraps_come_first(lab: Lab) -> None:
    refused = await lab.refused(
        "workflow.start", definitionId="proxy_default", input={"capability": "text.shout", "text": "a"}
    )
    assert refused["error"]["code"] == "GUARD_REJECTED"
    assert "workflowId" not in refused
    loud = lab.as_("ana", "loud")
    assert (await loud.call("text.shout", text="a"))["context"]["lastResult"]["text"] == "A!"


async def test_noop_returns_what_it_was_given(make_lab: MakeLab, working: Working) -> None:
    lab = await working(
        capabilities={
            "echo": {"executor": {"kind": "noop"}, "inputSchema": {"type": "object"}},
            "pick": {"executor": {"kind": "noop", "map": {"x": "$.arguments.a.b", "y": "$.arguments.no", "z": 1}},
                     "inputSchema": {"type": "object"}},
        }
    )  # fmt: skip
    assert (await lab.call("echo", a=[1, {"b": None}]))["context"]["lastResult"] == {"a": [1, {"b": None}]}
    assert (await lab.call("pick", a={"b": 2}))["context"]["lastResult"] == {"x": 2, "z": 1}


async def test_idle_sessions_are_deleted(lab: Lab, store: Store, project: str) -> None:
    answer = await lab.call("text.upper", text="a")
    name = answer["workflowId"]
    expiry = keys.gate_expiry.key(project)
    due = float(await store.command("ZSCORE", expiry, name))
    assert due > await server_time(store)
    await store.command("ZADD", expiry, int(due) - 60_000, name)
    await lab.get(answer)
    assert float(await store.command("ZSCORE", expiry, name)) >= due
    await store.command("ZADD", keys.gate_expiry.key(project), 1, name)
    assert await InstanceStore(store, lab.settings).forget(project, 100) == (1, False)
    assert (await lab.refused("workflow.get", workflowId=name))["error"]["code"] == "WORKFLOW_NOT_FOUND"
    # The definitions went with the last instance that had them.
    assert await store.command("EXISTS", keys.gate_bundles.key(project)) == 0
    assert await store.command("KEYS", keys.gate_bundle.key(project, "*")) == []


async def test_a_session_with_an_operation_in_progress_is_kept(make_lab: MakeLab, store: Store, project: str) -> None:
    # There is no worker.
    lab = make_lab(capabilities=CAPABILITIES, limits={"submitWaitMs": 100})
    answer = await lab.follow(await lab.start("proxy_default", capability="nothing"), "nothing")
    await store.command("ZADD", keys.gate_expiry.key(project), 1, answer["workflowId"])
    instances = InstanceStore(store, lab.settings)
    assert await instances.forget(project, 100) == (1, True)
    assert await instances.forget(project, 100) == (0, True)
    assert "inFlight" in await lab.get(answer)


async def test_approvals_are_deleted_with_their_session(make_lab: MakeLab, store: Store, project: str) -> None:
    lab = make_lab(capabilities={"ask": {"executor": {"kind": "human"}}})
    answer = await lab.follow(await lab.start("proxy_default", capability="ask"), "ask")
    records = AuditStore(store, lab.settings)
    (asked,) = await records.open_approvals(project)
    await store.command("ZADD", keys.gate_expiry.key(project), 1, answer["workflowId"])
    await InstanceStore(store, lab.settings).forget(project, 100)
    assert await records.open_approvals(project) == []
    assert await records.approval(project, asked.id) is None


async def test_one_sweep_deletes_all_expired_sessions(
    make_lab: MakeLab, store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_kind, "FORGET_BATCH", 2)
    lab = make_lab(capabilities=CAPABILITIES)
    for _ in range(5):
        name = (await lab.start("proxy_default", capability="nothing"))["workflowId"]
        await store.command("ZADD", keys.gate_expiry.key(project), 1, name)
    gateway = Worker(store, lab.settings).kinds["gateway"]
    assert await gateway.tidy(project)
    assert await store.command("EXISTS", keys.gate_expiry.key(project)) == 0
