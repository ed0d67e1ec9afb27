"""Finds mistakes in a well-formed section ``gateway``. Errors prevent a start or a reload, warnings do not."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from coordinator.settings.problems import KeyPath, unknown
from coordinator.settings.sections.connections import Connection, interpolated
from coordinator.settings.sections.gateway.executor import Executor, Guard
from coordinator.settings.sections.gateway.model import Gateway, OnEnter, Transition, Workflow
from coordinator.toolsets.gateway.rules import graph, mapping
from coordinator.toolsets.gateway.rules.expressions import Malformed, parse
from coordinator.toolsets.gateway.rules.graph import Flaw, Level
from coordinator.toolsets.gateway.rules.resolve import OWN, Resolution, all_connections, resolved
from coordinator.toolsets.gateway.rules.schemas.inputs import schema_problem
from coordinator.toolsets.gateway.rules.scope import is_path
from coordinator.toolsets.gateway.rules.scope import parse as parse_path

ToolProblem = Callable[[str], str]
"""What is wrong with the name of one of the coordinator's own tools, as a sentence; empty if nothing is."""

FlowProblems = Callable[[Mapping[str, Any]], Iterable[tuple[Level, str]]]
"""What is wrong (error) or odd (warning) in a flow, as sentences that begin with their place."""

VARIABLES = ("workflowId", "transition", "correlationId")
"""The names that a template of an idempotency key may contain."""

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def problems(
    gateway: Gateway,
    connections: Mapping[str, Connection] | None,
    tool_problem: ToolProblem = lambda name: "",
    flow_problems: FlowProblems = lambda flow: (),
    environment: Mapping[str, str] = os.environ,
) -> list[Flaw]:
    """All problems of a section, in its order.

    Args:
        connections: those at the top of the settings.
        tool_problem: judges names of the coordinator's own tools.
        flow_problems: judges flows that executors create.
        environment: the variables that executors will probably have.
    """
    made = resolved(gateway)
    lint = _Lint(gateway, made, all_connections(gateway, connections), tool_problem, flow_problems, environment)
    return [*(Flaw("error", at, sentence) for at, sentence in made.problems), *lint.run(connections or {})]


class _Lint:
    def __init__(
        self,
        gateway: Gateway,
        made: Resolution,
        connections: Mapping[str, Connection],
        tool_problem: ToolProblem,
        flow_problems: FlowProblems,
        environment: Mapping[str, str],
    ) -> None:
        self._gateway = gateway
        self._made = made
        self._connections = connections
        self._tool_problem = tool_problem
        self._flow_problems = flow_problems
        self._environment = environment

    def run(self, shared: Mapping[str, Connection]) -> Iterator[Flaw]:
        gateway = self._gateway
        for name, connection in gateway.connections.items():
            at: KeyPath = ("gateway", "connections", name)
            if name in shared:
                sentence = f"the connection {name!r} is at the top of the settings too: name one of them otherwise"
                yield Flaw("error", at, sentence)
            yield from self._variables(at, msgspec.to_builtins(connection))
        for name, capability in gateway.capabilities.items():
            yield from self._common(("gateway", "capabilities", name), capability, name)
        for number, exposure in enumerate(gateway.proxy.expose):
            yield from self._common(("gateway", "proxy", "expose", number), exposure, exposure.id)
        for number, stated in enumerate(gateway.proxy.imports):
            here: KeyPath = ("gateway", "proxy", "import", number)
            yield from self._connection(here, stated.connection, "mcp")
            if stated.prefix is not None:
                yield from _own((*here, "prefix"), f"{stated.prefix}.")
            yield from self._reliability((*here, "reliability"), stated.reliability)
        for name, workflow in gateway.workflows.items():
            yield from self._workflow(("gateway", "workflows", name), name, workflow)

    def _common(self, at: KeyPath, part: Any, name: str) -> Iterator[Flaw]:
        """Checks the parts common to capabilities and exposures."""
        yield from _schema((*at, "inputSchema"), part.input_schema)
        yield from self._guards((*at, "guards"), part.guards)
        if part.executor is not None:
            yield from self._executor((*at, "executor"), part.executor)
        yield from self._reliability((*at, "reliability"), part.reliability, part.executor)
        yield from _own(at, name)

    def _workflow(self, at: KeyPath, name: str, workflow: Workflow) -> Iterator[Flaw]:
        yield from _schema((*at, "inputSchema"), workflow.input_schema)
        for problem in graph.problems(workflow):
            yield problem._replace(path=(*at, *problem.path))
        for state_name, state in workflow.states.items():
            here: KeyPath = (*at, "states", state_name)
            if state.on_enter is not None:
                yield from self._entry((*here, "onEnter"), state.on_enter)
            for key, transition in state.transitions.items():
                yield from self._transition((*here, "transitions", key), transition)
        yield from self._sub_workflows(at, name)

    def _entry(self, at: KeyPath, entry: OnEnter) -> Iterator[Flaw]:
        if entry.executor is None:
            yield Flaw("warning", at, "onEnter has no executor, so its output has no source")
        else:
            yield from self._executor((*at, "executor"), entry.executor)
            yield from self._unasked((*at, "executor"), entry.executor)
        yield from _output((*at, "output"), entry.output)
        yield from self._reliability((*at, "reliability"), entry.reliability, entry.executor)

    def _transition(self, at: KeyPath, transition: Transition) -> Iterator[Flaw]:
        yield from _schema((*at, "inputSchema"), transition.input_schema)
        yield from self._guards((*at, "guards"), transition.guards)
        yield from _output((*at, "output"), transition.output)
        yield from self._reliability((*at, "reliability"), transition.reliability, transition.executor)
        if transition.executor is not None:
            yield from self._executor((*at, "executor"), transition.executor)
        elif transition.reliability is not None:
            yield Flaw("warning", (*at, "reliability"), "there is no executor for it to apply to")
        for number, branch in enumerate(transition.branches):
            yield from self._guards((*at, "branches", number, "when"), (branch.when,), single=True)
        yield from _prefill((*at, "prefill"), transition.prefill)

    def _sub_workflows(self, at: KeyPath, name: str) -> Iterator[Flaw]:
        """Warns of endless recursion of sub-workflows."""
        for circle in graph.recursions(name, self._made.workflows):
            yield Flaw("warning", at, f"it starts itself as a sub-workflow: {' -> '.join(circle)}")

    def _executor(self, at: KeyPath, executor: Executor) -> Iterator[Flaw]:
        if executor.capability is not None:
            return  # looked up when the section is resolved
        if executor.connection is not None and executor.kind is not None:
            yield from self._connection(at, executor.connection, executor.kind)
        if executor.kind == "workflow" and executor.definition_id not in self._gateway.workflows:
            sentence = unknown("workflow", executor.definition_id or "", self._gateway.workflows)
            yield Flaw("error", (*at, "definitionId"), sentence)
        if executor.kind == "builtin":
            sentence = "the gateway's own tools cannot be executed" if executor.tool.startswith(OWN) else ""
            if sentence := sentence or self._tool_problem(executor.tool):
                yield Flaw("error", (*at, "tool"), sentence)
        if executor.flow is not None:
            for level, sentence in self._flow_problems(executor.flow):
                yield Flaw(level, at, sentence)
        yield from _idempotency(at, executor.idempotency_key)
        fields = msgspec.to_builtins(executor)
        for text, place in _paths({key: value for key, value in fields.items() if key != "flow"}, at):
            yield from _path(place, text)
        yield from self._variables(at, fields)

    def _variables(self, at: KeyPath, fields: Any) -> Iterator[Flaw]:
        """Warns of environment variables that are not set."""
        for text, place in _texts(fields, at):
            try:
                interpolated(text, self._environment)
            except KeyError as missing:
                yield Flaw("warning", place, f"the environment variable {missing.args[0]} is not set here")

    def _unasked(self, at: KeyPath, executor: Executor) -> Iterator[Flaw]:
        """Warns of guards that are never evaluated, because their capability runs where no guards are evaluated."""
        capability = self._made.capabilities.get(executor.capability or "")
        if capability is not None and capability.guards:
            yield Flaw(
                "warning",
                (*at, "capability"),
                f"the guards of the capability {capability.id!r} are not evaluated here: give them to the transitions "
                "that lead here",
            )

    def _connection(self, at: KeyPath, name: str, kind: str) -> Iterator[Flaw]:
        here = (*at, "connection")
        connection = self._connections.get(name)
        if connection is None:
            yield Flaw("error", here, unknown("connection", name, self._connections))
        elif connection.kind != kind:
            yield Flaw("error", here, f"the connection {name!r} is of kind {connection.kind}, not {kind}")

    def _reliability(self, at: KeyPath, reliability: Any, executor: Executor | None = None) -> Iterator[Flaw]:
        if reliability is None:
            return
        if reliability.fallback is not None:
            for number, executor in enumerate(reliability.fallback.executors):
                yield from self._executor((*at, "fallback", "executors", number), executor)
                yield from self._unasked((*at, "fallback", "executors", number), executor)
        most = self._gateway.limits.max_attempt_timeout_ms
        stated = {"timeoutMs": reliability.timeout_ms, "maxTotalTimeoutMs": reliability.max_total_timeout_ms}
        for name, limit in stated.items():
            if limit is not None and limit > most:
                yield Flaw("warning", (*at, name), f"no attempt may take longer than {most} ms (limits)")
        if executor is not None and executor.kind not in (None, "mcp") and reliability.max_total_timeout_ms is not None:
            why = f"means nothing to an executor of kind {executor.kind}: only tools of servers report progress"
            yield Flaw("warning", (*at, "maxTotalTimeoutMs"), why)

    def _guards(self, at: KeyPath, guards: Iterable[Guard], *, single: bool = False) -> Iterator[Flaw]:
        for number, guard in enumerate(guards):
            here = at if single else (*at, number)
            if guard.kind in ("expr", "jsonpath"):
                try:
                    expression = parse(guard.expr)
                except Malformed as malformed:
                    yield Flaw("error", (*here, "expr"), f"the expression {guard.expr!r} {malformed}")
                    continue
                for path in expression.paths:
                    if path.root in ("", "output"):
                        yield Flaw(
                            "warning",
                            (*here, "expr"),
                            f"in {guard.expr!r} a path leads nowhere, so it is null; paths begin with "
                            "$.context, $.arguments or $.workflow.input",
                        )
            yield from self._guards((*here, "guards"), guard.guards)
            if guard.guard is not None:
                yield from self._guards((*here, "guard"), (guard.guard,), single=True)


def _own(at: KeyPath, name: str) -> Iterator[Flaw]:
    if name.startswith(OWN):
        yield Flaw("error", at, f"the name {name!r} looks like one of the gateway's own tools")


def _schema(at: KeyPath, schema: Mapping[str, Any] | None) -> Iterator[Flaw]:
    if schema is not None and (sentence := schema_problem(schema)):
        yield Flaw("error", at, sentence)


def _output(at: KeyPath, output: Mapping[str, Any]) -> Iterator[Flaw]:
    for key, spec in output.items():
        if sentence := mapping.problem(spec):
            yield Flaw("error", (*at, key), sentence)
        elif mapping.is_literal(spec):
            for text, place in _paths(spec, (*at, key)):
                yield Flaw(
                    "warning",
                    place,
                    f"{text!r} is written as it is, because it is inside a value; the whole value and the operands of "
                    "an operator can be paths",
                )


def _prefill(at: KeyPath, stated: Mapping[str, Any]) -> Iterator[Flaw]:
    for text, place in _paths(stated, at):
        yield from _path(place, text)
        path = parse_path(text)
        if path is not None and path.root == "arguments":
            yield Flaw("warning", place, f"{text!r} leads nowhere: when a link is made there are no arguments yet")


def _path(at: KeyPath, text: str) -> Iterator[Flaw]:
    path = parse_path(text)
    if path is None:
        yield Flaw("warning", at, f"{text!r} begins like a path but is none, so it is passed on as it is")
    elif path.root in ("", "output"):
        yield Flaw("error", at, f"{text!r} leads nowhere; paths begin with $.context, $.arguments or $.workflow.input")


def _idempotency(at: KeyPath, template: bool | str | None) -> Iterator[Flaw]:
    if isinstance(template, str):
        for name in _PLACEHOLDER.findall(template):
            if name not in VARIABLES:
                sentence = unknown("variable", name, VARIABLES)
                yield Flaw("error", (*at, "idempotencyKey"), sentence)


def _paths(value: Any, at: KeyPath) -> Iterator[tuple[str, KeyPath]]:
    return ((text, place) for text, place in _texts(value, at) if is_path(text))


def _texts(value: Any, at: KeyPath) -> Iterator[tuple[str, KeyPath]]:
    if isinstance(value, str):
        yield value, at
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _texts(entry, (*at, key))
    elif isinstance(value, list | tuple):
        for number, entry in enumerate(value):
            yield from _texts(entry, (*at, number))
