"""The machine against a plain interpreter: random workflows, random outcomes of executors, random moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.settings.sections.gateway.model import Workflow
from coordinator.steps.model import Failure, Outcome, Success
from coordinator.toolsets.caller import Caller, OfEntry
from coordinator.toolsets.gateway.rules import machine, planner
from coordinator.toolsets.gateway.rules.bundle import Bundle
from coordinator.toolsets.gateway.rules.guards import Principal
from coordinator.toolsets.gateway.rules.results import MAX_CONTEXT
from coordinator.toolsets.gateway.rules.task import Advance, Task, ending_of, unpacked
from tests.gateway.lab import Json
from tests.gateway.machines import FAILS, Meaning, machines

OUTCOMES = st.lists(st.sampled_from([0, 1, 2, 3, FAILS]), min_size=60, max_size=60)


class Instance:
    """An instance as the scripts would write it, one advance after the other."""

    def __init__(self, machine: dict[str, Any], outcomes: Iterator[Any]) -> None:
        self.bundle = Bundle(definitions={"w": msgspec.convert(machine, Workflow)})
        self.outcomes = outcomes
        self.state, self.version = "a", 1
        self.context: dict[str, Any] = dict(machine["initialContext"])
        self.evidence: dict[str, int] = {}
        self.entries: list[str] = []
        self.ended = ""
        self.asked = 0
        self.operations = 0
        self.ending = ending_of(b'{"state":"","version":0}')

    def task(self, kind: Any, **more: Any) -> Task:
        self.operations += 1
        return Task(
            op=f"cor_{self.operations}", kind=kind, workflow="wf_1", definition="w", principal=Principal(),
            state=self.state, version=self.version, context=self.context, evidence=self.evidence,
            open_approvals=self.asked > 0, **more,
        )  # fmt: skip

    def run(self, advance: Advance) -> str:
        """Applies advances until the operation is over; returns the code of its failure."""
        while True:
            self._apply(advance)
            if advance.next is None:
                break
            assert not advance.ending
            task = unpacked(advance.next.task)
            # The task continues from the committed instance.
            assert (task.state, task.version, task.context) == (self.state, self.version, self.context)
            advance = planner.after(self.bundle, task, self._outcome())
        assert advance.ending
        self.ending = ending_of(advance.ending)
        assert (self.ending.state, self.ending.version) == (self.state, self.version)
        assert self.ending.context == self.context
        assert self.ending.terminal == bool(self.ended)
        return self.ending.error.code if self.ending.error is not None else ""

    def _outcome(self) -> Outcome:
        found = next(self.outcomes)
        return Failure("no", "permanent_error") if found == FAILS else Success({"v": found})

    def _apply(self, advance: Advance) -> None:
        assert advance.base == self.version
        assert not self.ended
        self.state, self.version = advance.state, advance.version
        if advance.context:
            self.context = msgspec.json.decode(advance.context)
        if advance.counts:
            self.evidence = msgspec.json.decode(advance.counts)
        self.entries += [msgspec.json.decode(one)["kind"] for one in advance.evidence]
        for one in advance.approvals:
            self.asked = self.asked + 1 if one.what == "ask" else 0
        if advance.ended:
            self.ended, self.asked = advance.ended, 0
        for event in advance.audit:
            msgspec.json.decode(event.payload)


def agree(instance: Instance, meaning: Meaning) -> None:
    assert instance.state == meaning.state
    assert instance.version == meaning.version
    assert instance.context == meaning.context
    assert instance.evidence == meaning.evidence
    assert instance.ended == meaning.ended
    assert {kind: instance.entries.count(kind) for kind in instance.entries} == meaning.evidence
    chain = [(hop.from_state, hop.transition, hop.to_state, hop.version) for hop in instance.ending.chain]
    assert chain == meaning.chain
    assert instance.ending.stopped == meaning.stopped


@settings(max_examples=40)
@given(machines(), OUTCOMES, st.data())
def test_the_planner_matches_the_plain_interpreter(
    machine: dict[str, Any], outcomes: list[Any], data: st.DataObject
) -> None:
    instance, meaning = Instance(machine, iter(outcomes)), Meaning(machine, iter(outcomes))
    expected = meaning.start()
    assert instance.run(planner.start(instance.bundle, instance.task("start"))) == expected
    agree(instance, meaning)
    for _ in range(4):
        possible = meaning.possible()
        if meaning.ended or not possible:
            break
        name = data.draw(st.sampled_from(possible))
        version = instance.version
        expected = meaning.submit(name)
        assert instance.run(planner.submit(instance.bundle, instance.task("submit", transition=name))) == expected
        agree(instance, meaning)
        if expected == "EXECUTOR_FAILED" and not meaning.chain:
            # The requested hop failed, or a later one: a failed hop leaves nothing.
            assert instance.version in (version, version + 1)


@given(machines(), OUTCOMES, st.sampled_from(["a", "b", "c", "d"]))
def test_a_timeout_moves_an_instance_whatever_its_executors_do(
    machine: dict[str, Any], outcomes: list[Any], target: str
) -> None:
    machine = {**machine, "timeoutMs": 1, "onTimeout": {"target": target}}
    instance = Instance(machine, iter(outcomes))
    instance.run(planner.start(instance.bundle, instance.task("start")))
    if instance.ended:
        return
    version = instance.version
    instance.run(planner.timeout(instance.bundle, instance.task("timeout")))
    assert instance.version == version + 1 + len(instance.ending.chain)
    assert instance.state == target or instance.ending.chain
    if target == "d":
        assert instance.ended == machine["states"]["d"]["outcome"]


def test_a_chain_may_be_as_long_as_the_configuration_allows() -> None:
    hops = 999
    step = {"actor": "deterministic", "output": {"n": {"add": ["$.context.n", 1]}}}
    states: dict[str, Any] = {f"s{n}": {"transitions": {"go": {"target": f"s{n + 1}", **step}}} for n in range(hops)}
    machine_of: Json = {
        "initialState": "s0",
        "maxChainDepth": 1000,
        "states": {**states, f"s{hops}": {"terminal": True}},
    }
    bundle = Bundle(definitions={"w": msgspec.convert(machine_of, Workflow)})
    principal = Principal(id="ana")
    task = Task(op="c", kind="start", workflow="wf_1", definition="w", principal=principal, state="s0", version=1)
    advance = planner.start(bundle, task)
    assert (advance.state, advance.version, advance.context) == (f"s{hops}", hops + 1, f'{{"n":{hops}}}')
    workflow = bundle.definitions["w"]
    assert not machine.entry_executes(workflow, "s0")
    assert not machine.executes(workflow, "go")
    last = {**states[f"s{hops - 1}"], "onEnter": {"executor": {"kind": "noop"}}}
    working = msgspec.convert({**machine_of, "states": {**machine_of["states"], f"s{hops - 1}": last}}, Workflow)
    assert machine.entry_executes(working, "s0")
    assert machine.executes(working, "go")


NOOP = {"kind": "noop"}
INSURED = {"fallback": {"executors": [NOOP]}}


def going(**more: Any) -> Json:
    """A workflow whose transition ``go`` leads from a to b."""
    go = {"target": "b", **more.pop("go", {})}
    return {"initialState": "a", "initialContext": {}, "states": {"a": {"transitions": {"go": go}}, "b": {}, **more}}


def test_an_authenticated_caller_calls_the_coordinators_tools_as_itself() -> None:
    # An authenticated caller has its own rights, not those of an anonymous one, who may do everything.
    for name in ("ana", "anonymous"):
        for roles, permissions in ((("lead",), ()), ((), ("items",))):
            caller = Caller(name, "user", frozenset(roles), frozenset(permissions), OfEntry("0" * 12))
            assert Principal.of(caller).caller == caller
        # One without any rights is not anonymous either.
        nobody_yet = Caller(name, "user", credential=OfEntry("0" * 12))
        assert Principal.of(nobody_yet).caller == nobody_yet
    assert Principal.of(None).caller is None


def test_which_transitions_need_a_worker() -> None:
    def works(**more: Any) -> tuple[bool, bool]:
        workflow = msgspec.convert(going(**more), Workflow)
        return machine.executes(workflow, "go"), machine.entry_executes(workflow, "b")

    chain = {"transitions": {"on": {"actor": "deterministic", "target": "c", "executor": NOOP}}}
    assert works() == (False, False)
    assert works(go={"executor": {"kind": "human"}}) == (False, False)
    assert works(go={"executor": NOOP}) == (True, False)
    assert works(b={"onEnter": {"executor": NOOP}}) == (True, True)
    assert works(b=chain, c={}) == (True, True)
    assert works(b={"transitions": {"on": {"target": "c", "executor": NOOP}}}, c={}) == (False, False)


def test_the_executor_on_entry_does_not_begin_with_its_fallback() -> None:
    entered = {"onEnter": {"executor": NOOP, "output": {"by": "$.output.v"}}}
    for reliability in ({}, {"reliability": INSURED}):
        entry = {"onEnter": {**entered["onEnter"], **reliability}}
        instance = Instance(going(go={"executor": NOOP, "reliability": INSURED}, b=entry), iter([FAILS, 1, 2]))
        assert instance.run(planner.submit(instance.bundle, instance.task("submit", transition="go"))) == ""
        assert (instance.state, instance.version, instance.context) == ("b", 2, {"by": 2})


def test_a_branch_sees_the_evidence_of_its_executor() -> None:
    branch = {"when": {"kind": "evidence", "requires": [{"kind": "cli_output", "count": 2}]}, "target": "done"}
    again = {"target": "a", "executor": {"kind": "cli", "command": "true"}, "branches": [branch]}
    instance = Instance(going(go=again, done={}), iter([1, 2]))
    for state in ("a", "done"):
        assert instance.run(planner.submit(instance.bundle, instance.task("submit", transition="go"))) == ""
        assert instance.state == state
    assert instance.evidence == {"cli_output": 2}


@pytest.mark.parametrize(
    ("hop", "code"),
    [({"executor": NOOP}, "EXECUTOR_FAILED"), ({"guards": [{"kind": "role", "role": "nobody"}]}, "CHAIN_FAILED")],
)
@pytest.mark.parametrize(("nesting", "outcome"), [(0, ""), (1, "failure")], ids=["by somebody", "sub-workflow"])
def test_a_sub_workflow_with_a_failed_start_has_failed(hop: Json, code: str, nesting: int, outcome: str) -> None:
    """Otherwise its parent would wait until the timeout; nobody else continues it."""
    instance = Instance(going(go={"actor": "deterministic", **hop}), iter([FAILS]))
    assert instance.run(planner.start(instance.bundle, instance.task("start", nesting=nesting))) == code
    assert (instance.state, instance.ended) == ("a", outcome)


def test_a_new_approval_replaces_the_previous_one() -> None:
    instance = Instance(going(go={"target": "a", "executor": {"kind": "human"}}), iter([]))
    closed = []
    for _ in range(2):
        advance = planner.submit(instance.bundle, instance.task("submit", transition="go"))
        closed.append([one.what for one in advance.approvals])
        assert instance.run(advance) == ""
    assert closed == [["ask"], ["withdrawn", "ask"]]


def test_polling_of_a_flow_backs_off_and_its_fallback_has_its_own_timeout() -> None:
    def looks(timeout_ms: int, count: int) -> list[tuple[int, str, int]]:
        flow = {"kind": "flow", "flow": {"start": {"name": "x", "tool": None, "done": True}}, "timeoutMs": timeout_ms}
        instance = Instance(going(go={"executor": flow, "reliability": {"fallback": {"executors": [flow]}}}), iter([]))
        advance, found = planner.submit(instance.bundle, instance.task("submit", transition="go")), []
        for _ in range(count):
            assert advance.next is not None
            task = unpacked(advance.next.task)
            found.append((task.candidate, task.wait, advance.next.delay_ms))
            running = Success({"id": task.candidate + 1, "status": "running"})
            advance = planner.after(instance.bundle, task, running)
        return found

    assert looks(1000, 8) == [
        (0, "", 0), (0, "1", 200), (0, "1", 200), (0, "1", 200), (0, "1", 300), (0, "1", 450),
        (1, "", 0), (1, "2", 200),
    ]  # fmt: skip
    delays = [delay for candidate, _, delay in looks(60_000, 40) if candidate == 0]
    assert max(delays) == 2000
    assert 60_000 <= sum(delays) < 62_000


def test_a_timeout_moves_an_instance_whatever_its_entry_would_write() -> None:
    twice = {"concat": ["$.context.long", "$.context.long"]}
    late = {"onEnter": {"output": {"longer": twice}}, "transitions": {"back": {"target": "a"}}}
    instance = Instance({**going(late=late), "timeoutMs": 1, "onTimeout": {"target": "late"}}, iter([]))
    instance.context = {"long": "x" * (MAX_CONTEXT * 2 // 3)}
    context = dict(instance.context)
    assert instance.run(planner.timeout(instance.bundle, instance.task("timeout"))) == ""
    assert (instance.state, instance.version) == ("late", 2)
    assert instance.context.pop("longer")["bytes"] == 2 * (MAX_CONTEXT * 2 // 3) + 2
    assert instance.context == context
    # Nothing can be cut that would make room for it.
    full = Instance({**going(late=late), "timeoutMs": 1, "onTimeout": {"target": "late"}}, iter([]))
    full.context = {"long": "x" * (MAX_CONTEXT - len('{"long":""}'))}
    context = dict(full.context)
    assert full.run(planner.timeout(full.bundle, full.task("timeout"))) == ""
    assert (full.state, full.version, full.context) == ("late", 2, context)
