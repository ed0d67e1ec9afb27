"""Plans operations: pure functions of an instance, a transition and outcomes of executors.

``start``, ``submit`` and ``timeout`` begin an operation. ``after`` continues it when an executor has ended. Each
returns what the script is to write. A *hop* is one move from state to state. Hops without an executor are taken at
once, so a chain of them is a single write. Every hop raises the version by one. The executor that runs on entry of the
hop's target belongs to the hop. A failure does not raise the version.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec.structs import replace

from coordinator.settings.sections.gateway.executor import Executor, Reliability
from coordinator.settings.sections.gateway.model import OnEnter, State, Transition, Workflow
from coordinator.steps.model import STATE_LOST, Failure, Outcome, Success
from coordinator.toolsets.gateway.rules import machine
from coordinator.toolsets.gateway.rules.advance import PERMANENT, AdvanceBuilder
from coordinator.toolsets.gateway.rules.bundle import Bundle, candidate, retry_of, retry_on
from coordinator.toolsets.gateway.rules.guards import Circumstances, evaluate
from coordinator.toolsets.gateway.rules.mapping import written
from coordinator.toolsets.gateway.rules.results import MAX_CONTEXT, Changes, cut_to_fit
from coordinator.toolsets.gateway.rules.schemas.inputs import MAX_DEPTH, too_deep
from coordinator.toolsets.gateway.rules.scope import Scope
from coordinator.toolsets.gateway.rules.task import Advance, Approval, Task

_encode = msgspec.json.Encoder().encode

FLOW_POLL_MS, FLOW_POLL_MAX_MS = 200, 2_000
"""The shortest and the longest interval for polling a flow that an executor waits for."""
FLOW_TIMEOUT_MS = 3_600_000
"""The timeout for a flow if the executor has none."""
_WITHOUT_EFFECT = ("noop", "human")
"""Kinds of executors that call nothing."""


def start(bundle: Bundle, task: Task) -> Advance:
    """Begins an instance in its initial state, at version 1."""
    run = _Run(bundle, task)
    run.builder.record("workflow.started", definitionId=task.definition, input=task.input, nesting=task.nesting or None)
    return run.take_hops(run.enter(task.state, task.context))


def submit(bundle: Bundle, task: Task, evaluated: Sequence[tuple[str, bool]] = ()) -> Advance:
    """Takes the transition that the task names. Principal, arguments and guards have been checked.

    Args:
        evaluated: the kinds of the evaluated guards, and whether they held.
    """
    run = _Run(bundle, task)
    run.builder.record("transition.requested", transition=task.transition, state=task.state, arguments=task.arguments)
    for kind, held in evaluated:
        run.builder.record("guard.evaluated", transition=task.transition, guard=kind, passed=held)
    return run.take_hops(run.fire())


def timeout(bundle: Bundle, task: Task) -> Advance:
    run = _Run(bundle, task)
    target = run.workflow.on_timeout.target if run.workflow.on_timeout is not None else ""
    run.builder.record("workflow.timed_out", state=task.state, target=target or None)
    return run.take_hops(run.enter(target, task.context) if target else run.give_up())


def after(bundle: Bundle, task: Task, outcome: Outcome) -> Advance:
    """Continues an operation when an executor has ended."""
    run = _Run(bundle, task)
    return run.take_hops(run.resume(outcome))


def unplanned(bundle: Bundle, task: Task, outcome: Outcome) -> Advance:
    """Ends an operation because ``after`` has raised for this outcome; fallbacks are not tried."""
    task.carried_out |= isinstance(outcome, Success)
    return _Run(bundle, task).builder.fail_result("the next step could not be planned")


class _Run:
    """One part of an operation, up to the next executor or the end. The builder collects the writes."""

    def __init__(self, bundle: Bundle, task: Task) -> None:
        self.bundle = bundle
        self.workflow: Workflow = bundle.definitions[task.definition]
        self.task = task
        self.builder = AdvanceBuilder(self.workflow, task)
        self._hop_follows = False
        """Whether the task's transition is automatic and comes next."""
        self._encoded: tuple[dict[str, Any] | None, bytes] = None, b""

    # --- hops -------------------------------------------------------------------------------------

    def take_hops(self, advance: Advance) -> Advance:
        """Takes the automatic hops. A loop, not a recursion, because a chain may be long."""
        while self._hop_follows:
            self._hop_follows = False
            advance = self.fire()
        return advance

    def fire(self) -> Advance:
        """Takes the task's transition from its beginning."""
        transition = self._transition
        if transition.executor is None:
            return self._executed(self.task.arguments)
        return self._execute(transition.executor, transition.reliability)

    def resume(self, outcome: Outcome) -> Advance:
        """Continues the current hop with the outcome of its executor."""
        executor, reliability = self._executor()
        used = candidate(executor, reliability, self.task.candidate) if executor is not None else None
        if executor is None or used is None:
            return self.builder.fail(Failure("the executor no longer exists", PERMANENT))
        if isinstance(outcome, Failure):
            late = used.kind == "workflow" and bool(self.task.wait)
            return self._failed(outcome, used, executor, reliability, begun=late)
        if used.kind == "workflow":
            return self._sub_workflow(outcome.value, used, executor, reliability)
        if used.kind == "flow":
            waiting = self._flow(outcome.value, used)
            if isinstance(waiting, Failure):
                return self._failed(waiting, used, executor, reliability, begun=True)
            if waiting is not None:
                return waiting
        self._succeeded(used)
        return self._executed(outcome.value)

    def enter(self, target: str, draft: dict[str, Any]) -> Advance:
        """Enters a state without a transition: the initial state, or that of a timeout."""
        self.task.transition = ""
        return self._arrive(target, draft)

    def give_up(self) -> Advance:
        """Ends an instance in its current state, because it timed out."""
        self.builder.commit(self.task.state, self.task.context, machine.TIMED_OUT)
        return self.builder.end(machine.TIMED_OUT)

    # --- executors --------------------------------------------------------------------------------

    def _execute(self, executor: Executor, reliability: Reliability | None) -> Advance:
        """Hands the current candidate to a worker."""
        used = candidate(executor, reliability, self.task.candidate)
        if used is None:
            return self.builder.fail(Failure("the executor no longer exists", PERMANENT))
        self.builder.record("executor.started", **self._about(used))
        if used.kind == "human":
            return self._ask(used)
        return self.builder.wait_for("run")

    def _ask(self, executor: Executor) -> Advance:
        """Asks people for an approval; needs no worker."""
        task = self.task
        request = "hr_" + _digest(task.place, str(len(task.asked)))
        task.asked = [
            *task.asked,
            Approval("ask", request, executor.queue, executor.distinct_from is not None, task.principal.id,
                     task.transition),
        ]  # fmt: skip
        self.builder.record("human.approval.requested", requestId=request, queue=executor.queue)
        self._succeeded(executor)
        return self._executed({"queue": executor.queue, "requestId": request, "status": "queued"})

    def _sub_workflow(self, value: Any, used: Executor, executor: Executor, reliability: Reliability | None) -> Advance:
        """Waits for the sub-workflow just started; continues with its result once it has ended."""
        task = self.task
        if not task.wait:
            task.wait = value["child"]
            self.builder.record("sub_workflow.started", definitionId=used.definition_id, workflowId=task.wait)
            return self.builder.wait_for("child", expires_ms=used.timeout_ms or 0, child=task.wait)
        child = task.wait
        if value.get("outcome") != machine.SUCCESS:
            what = value.get("outcome") or "was forgotten"
            self.builder.record("sub_workflow.failed", workflowId=child, outcome=what)
            failure = Failure(f"the sub-workflow {child} ended: {what}, in state {value.get('state')!r}", PERMANENT)
            return self._failed(failure, used, executor, reliability, begun=True)
        task.wait = ""
        self.builder.record("sub_workflow.completed", workflowId=child, state=value.get("state"))
        self._succeeded(used)
        return self._executed(value.get("context") or {})

    def _flow(self, value: Any, executor: Executor) -> Advance | Failure | None:
        """Polls the flow again later, or fails if it failed or timed out; None: it has completed."""
        task = self.task
        if value["status"] == "completed":
            task.wait = ""
            return None
        task.wait = str(value["id"])
        if value["status"] != "running":
            return Failure(f"the flow {task.wait} {value['status']}: {value['reason']}", PERMANENT)
        if task.waited_ms >= (executor.timeout_ms or FLOW_TIMEOUT_MS):
            return Failure(f"the flow {task.wait} took too long; it is still running", "timeout")
        delay = min(FLOW_POLL_MAX_MS, max(FLOW_POLL_MS, task.waited_ms // 2))
        task.waited_ms += delay
        return self.builder.wait_for("run", delay_ms=delay)

    def _succeeded(self, executor: Executor) -> None:
        """Records the evidence of the executor; written with the hop."""
        self.builder.record("executor.succeeded", **self._about(executor))
        self.task.carried_out |= executor.kind not in _WITHOUT_EFFECT
        if self.task.candidate:
            self.builder.record("fallback.selected", **self._about(executor))
        kind = machine.EVIDENCE.get(executor.kind or "")
        if kind is not None:
            self.task.marks = [*self.task.marks, kind]

    def _failed(
        self, failure: Failure, used: Executor, executor: Executor, reliability: Reliability | None, *, begun: bool
    ) -> Advance:
        """Tries another attempt or the next fallback, if there is one.

        Args:
            begun: whether a sub-workflow or flow that an attempt began has failed or timed out; workers retry only
                attempts themselves.
        """
        task = self.task
        if task.wait and used.kind == "workflow" and failure.type == "timeout":
            self.builder.record("sub_workflow.timed_out", workflowId=task.wait)
        task.wait, task.waited_ms = "", 0
        if begun and failure.type in retry_on(reliability) and task.tries + 1 < retry_of(reliability).max_attempts:
            share = int(_digest(task.place, str(task.candidate), str(task.tries)), 16) / 2**64
            delay = retry_of(reliability).delay(task.tries, share)
            task.tries += 1
            why = {"error": failure.message, "type": failure.type}
            self.builder.record("executor.retrying", attempt=task.tries, delayMs=delay, failure=why)
            return self.builder.wait_for("run", delay_ms=delay)
        about = self._about(used)
        self.builder.record("executor.failed", **about, errorClass=failure.type, message=failure.message)
        task.tries = 0
        # A fallback would go on as if nothing had been lost.
        if failure.type != STATE_LOST and candidate(executor, reliability, task.candidate + 1) is not None:
            task.candidate += 1
            return self._execute(executor, reliability)
        if self._timing_out:
            task.candidate = 0
            return self._entered(task.draft or task.context)
        return self.builder.fail(failure)

    # --- what a hop leads to ----------------------------------------------------------------------

    def _executed(self, value: Any) -> Advance:
        """Continues with the result of the transition's executor, or of the executor on entry."""
        task = self.task
        if task.phase == "enter":
            on_enter = self._on_enter(task.target)
            draft = task.draft if task.draft is not None else task.context
            return self._entered(self._mapped(on_enter.output if on_enter else {}, value, draft))
        transition = self._transition
        draft = self._mapped(transition.output, value, task.context)
        if problem := self._context_problem(draft):
            return self.builder.fail_result(problem)
        target = transition.target
        at = self._circumstances(draft, task.arguments)
        for number, branch in enumerate(transition.branches):
            if evaluate(branch.when, at):
                target = branch.target
                self.builder.record("transition.branched", transition=task.transition, branch=number, target=target)
                break
        return self._arrive(target, draft)

    def _arrive(self, target: str, draft: dict[str, Any]) -> Advance:
        """Runs the executor on entry of the target, if there is one."""
        task = self.task
        task.target, task.draft = target, draft
        on_enter = self._on_enter(target)
        if on_enter is None:
            return self._entered(draft)
        task.phase, task.candidate, task.tries = "enter", 0, 0
        if on_enter.executor is None:
            return self._entered(self._mapped(on_enter.output, None, draft))
        return self._execute(on_enter.executor, on_enter.reliability)

    def _entered(self, draft: dict[str, Any]) -> Advance:
        """Commits the hop, and continues with the next automatic one if there is one."""
        task = self.task
        if problem := self._context_problem(draft):
            if not self._timing_out:
                return self.builder.fail_result(problem)
            draft, task.wholes = task.context, {}
        began = task.kind == "start" and not task.first_done
        outcome = machine.outcome_of(self.workflow, task.target)
        if self._timing_out and outcome:
            outcome = self.workflow.states[task.target].outcome or machine.TIMED_OUT
        self.builder.commit(task.target, draft, outcome, bump=not began)
        return self.builder.end(outcome) if outcome else self._next_hop()

    def _next_hop(self) -> Advance:
        """Chooses the next automatic transition. If there is none, the operation ends."""
        task, state = self.task, self._state
        if task.then:
            task.transition, task.arguments, task.then = task.then, task.then_arguments, ""
            return self._continue()
        if not machine.chains(state):
            return self.builder.end()
        if len(task.chain) >= self.workflow.max_chain_depth:
            at = self._circumstances(task.context, {})
            return self.builder.end(
                stopped="depth_limit", retry=machine.choice(state, at, lambda kind, held: None) or ""
            )
        chosen = machine.choice(
            state,
            self._circumstances(task.context, {}),
            lambda kind, held: self.builder.record("guard.evaluated", state=task.state, guard=kind, passed=held),
        )
        if chosen is None:
            return self.builder.fail_choice(state)
        task.transition, task.arguments = chosen, machine.default_arguments(state.transitions[chosen])
        return self._continue()

    def _continue(self) -> Advance:
        """Queues the next hop for ``take_hops``."""
        self._hop_follows = True
        return self.builder.advance

    # --- what is known ----------------------------------------------------------------------------

    @property
    def _timing_out(self) -> bool:
        """Whether the current hop is that of a timeout. Then no failure may keep the workflow in its state."""
        return self.task.kind == "timeout" and not self.task.first_done

    @property
    def _state(self) -> State:
        return self.workflow.states[self.task.state]

    @property
    def _transition(self) -> Transition:
        return self._state.transitions[self.task.transition]

    def _on_enter(self, state: str) -> OnEnter | None:
        return self.workflow.states[state].on_enter

    def _executor(self) -> tuple[Executor | None, Reliability | None]:
        """The executor of the current hop."""
        if self.task.phase == "run":
            transition = self._transition
            return transition.executor, transition.reliability
        on_enter = self._on_enter(self.task.target)
        return (on_enter.executor, on_enter.reliability) if on_enter is not None else (None, None)

    def _circumstances(self, context: dict[str, Any], arguments: dict[str, Any]) -> Circumstances:
        task = self.task
        counts = dict(task.evidence)
        for kind in task.marks:
            counts[kind] = counts.get(kind, 0) + 1
        return Circumstances(task.principal, Scope(context, arguments, task.input), counts)

    def _mapped(self, output: dict[str, Any], value: Any, context: dict[str, Any]) -> dict[str, Any]:
        """The context with the values that an output mapping writes, cut where there is no room for them."""
        if not output:
            return context
        task = self.task
        new = written(output, Scope(context, task.arguments, task.input, value))
        mapped: dict[str, Any] = {**context, **new}
        changes: Changes = {}
        if len(self._text(mapped)) > MAX_CONTEXT:
            mapped, changes = cut_to_fit(mapped, new)
        if changes or task.kept or task.wholes:
            before = {whole.key for whole in task.kept} | task.wholes.keys()
            replaced = {key: None for key, value in new.items() if key in before and value != context.get(key)}
            for key, whole in {**replaced, **changes}.items():
                task.wholes.pop(key, None)
                task.wholes[key] = whole
        return mapped

    def _text(self, context: dict[str, Any]) -> bytes:
        """A context as JSON, encoded once."""
        if self._encoded[0] is not context:
            self._encoded = context, _encode(context)
        return self._encoded[1]

    def _context_problem(self, context: dict[str, Any]) -> str:
        """Why a context is rejected; empty: it is not."""
        text = self._text(context)
        if len(text) > MAX_CONTEXT:
            return f"the context would have {len(text)} bytes as JSON; allowed: at most {MAX_CONTEXT}"
        if text.count(b"{") + text.count(b"[") > MAX_DEPTH and too_deep(context):
            return f"the context would be nested more than {MAX_DEPTH} deep"
        return ""

    def _about(self, executor: Executor) -> dict[str, Any]:
        """The description of an executor in events."""
        task = self.task
        about: dict[str, Any] = {"transition": task.transition or None, "kind": executor.kind}
        if task.phase == "enter":
            about["onEnter"] = task.target
        if task.candidate:
            about["fallback"] = task.candidate
        return about


def executor_under_way(bundle: Bundle, task: Task) -> tuple[Executor | None, Reliability | None]:
    """What the current hop executes next."""
    executor, reliability = _Run(bundle, replace(task))._executor()
    return (candidate(executor, reliability, task.candidate), reliability) if executor is not None else (None, None)


def scope_under_way(task: Task) -> Scope:
    """The data that paths in that executor can refer to."""
    context = task.draft if task.phase == "enter" and task.draft is not None else task.context
    return Scope(context, task.arguments, task.input)


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
