"""Resolves the section ``gateway``: inheritance of capabilities, references of workflows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from coordinator.settings.problems import KeyPath, unknown
from coordinator.settings.sections.connections import Connection
from coordinator.settings.sections.gateway import model
from coordinator.settings.sections.gateway.executor import Executor, Guard, Reliability
from coordinator.toolsets.gateway.rules.schemas.inputs import EMPTY

OWN = ("gateway.", "workflow.")
"""Prefixes of the gateway's own tools. No capability's name may have one."""
READY = "ready"
"""The only state of a session with a capability."""
_MOST_WRAPPED = 100
RESULT = "lastResult"
"""The field of its context with the capability's last result."""


class Resolved(Struct, frozen=True, kw_only=True):
    """A capability with everything it inherits."""

    id: str
    title: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    examples: tuple[Any, ...] = ()
    input_schema: dict[str, Any] | None = None
    guards: tuple[Guard, ...] = ()
    reliability: Reliability | None = None
    executor: Executor = Executor(kind="noop")

    @property
    def schema(self) -> Mapping[str, Any]:
        """The schema of its arguments. If none is stated, it takes no arguments."""
        return self.input_schema if self.input_schema is not None else EMPTY


class Resolution(Struct, kw_only=True):
    """The section with all references resolved."""

    capabilities: dict[str, Resolved]
    """The declared ones, in their order."""
    exposed: dict[str, Resolved]
    """Those of ``proxy.expose``, in their order."""
    workflows: dict[str, model.Workflow]
    problems: list[tuple[KeyPath, str]]
    """Unknown and circular references: the place and a sentence."""


def all_connections(gateway: model.Gateway | None, shared: Mapping[str, Connection] | None) -> dict[str, Connection]:
    """The usable connections: the gateway's own, and those at the top of the settings."""
    return {**(shared or {}), **(gateway.connections if gateway is not None else {})}


def resolved(gateway: model.Gateway) -> Resolution:
    """Resolves the section. Parts with a problem are left out."""
    return _Resolver(gateway).run()


def session_of(capability: Resolved) -> model.Workflow:
    """The definition of sessions with a capability (``proxy_default``)."""
    call = model.Transition(
        target=READY,
        title=capability.title,
        description=capability.description,
        input_schema=dict(capability.schema),
        guards=capability.guards,
        executor=capability.executor,
        reliability=capability.reliability,
        output={RESULT: "$.output"},
    )
    return model.Workflow(
        title=capability.title,
        description=capability.description,
        initial_state=READY,
        states={READY: model.State(transitions={capability.id: call})},
    )


class _Resolver:
    def __init__(self, gateway: model.Gateway) -> None:
        self._gateway = gateway
        self._made: dict[str, Resolved | None] = {}
        self._under_way: list[str] = []
        self._problems: list[tuple[KeyPath, str]] = []

    def run(self) -> Resolution:
        gateway = self._gateway
        declared = {name: made for name in gateway.capabilities if (made := self._capability(name)) is not None}
        exposed: dict[str, Resolved] = {}
        for number, exposure in enumerate(gateway.proxy.expose):
            here: KeyPath = ("gateway", "proxy", "expose", number)
            made = self._exposure(exposure, here)
            if made is None:
                continue
            if made.id in exposed or (made.id in declared and exposure.id != exposure.capability):
                self._problems.append((here, f"there are two capabilities called {made.id!r}"))
            exposed.setdefault(made.id, made)
        workflows: dict[str, model.Workflow] = {}
        for name, workflow in gateway.workflows.items():
            at: KeyPath = ("gateway", "workflows", name)
            if name == model.PROXY:
                self._problems.append((at, f"the workflow name {model.PROXY!r} is reserved for capabilities"))
            elif name in declared or name in exposed:
                self._problems.append((at, f"there is a workflow and a capability called {name!r}"))
            workflows[name] = self._workflow(workflow, at)
        return Resolution(capabilities=declared, exposed=exposed, workflows=workflows, problems=self._problems)

    def _capability(self, name: str) -> Resolved | None:
        if name in self._made:
            return self._made[name]
        at: KeyPath = ("gateway", "capabilities", name)
        if name in self._under_way:
            circle = " -> ".join([*self._under_way[self._under_way.index(name) :], name])
            self._problems.append((at, f"these capabilities wrap each other: {circle}"))
            return None
        if len(self._under_way) >= _MOST_WRAPPED:
            self._problems.append((at, f"capabilities wrap each other more than {_MOST_WRAPPED} deep"))
            return None
        self._under_way.append(name)
        made = self._made[name] = self._inherit(name, self._gateway.capabilities[name], at)
        self._under_way.pop()
        return made

    def _inherit(self, name: str, stated: model.Offered, at: KeyPath) -> Resolved | None:
        executor, base = stated.executor, None
        if isinstance(stated, model.Capability) and stated.wraps is not None:
            base = self._named(stated.wraps, (*at, "wraps"))
            if base is None:
                return None
        if executor is not None and executor.capability is not None:
            inner = self._named(executor.capability, (*at, "executor", "capability"))
            if inner is None:
                return None
            executor = inner.executor
            base = inner if base is None else _joined(base, inner)
        if base is None:
            base = Resolved(id=name)
        if executor is None:
            executor = base.executor
        return Resolved(
            id=name,
            title=stated.title or base.title or name,
            description=stated.description or base.description,
            tags=_distinct(base.tags, stated.tags),
            aliases=_distinct(base.aliases, stated.aliases),
            examples=(*base.examples, *stated.examples),
            input_schema=stated.input_schema if stated.input_schema is not None else base.input_schema,
            guards=(*base.guards, *stated.guards),
            reliability=self._with_fallbacks(stated.reliability or base.reliability, at),
            executor=executor,
        )

    def _named(self, name: str, at: KeyPath) -> Resolved | None:
        if name not in self._gateway.capabilities:
            self._problems.append((at, unknown("capability", name, self._gateway.capabilities)))
            return None
        return self._capability(name)

    def _exposure(self, stated: model.Exposure, at: KeyPath) -> Resolved | None:
        if stated.capability is None:
            return self._inherit(stated.id, stated, at)
        base = self._named(stated.capability, (*at, "capability"))
        if base is None:
            return None
        return replace(
            base,
            id=stated.id,
            title=base.title if base.title != base.id else stated.id,
            description=stated.description or base.description,
            tags=_distinct(base.tags, stated.tags),
            aliases=_distinct(base.aliases, stated.aliases),
            guards=(*base.guards, *stated.guards),
            reliability=self._with_fallbacks(stated.reliability or base.reliability, at),
        )

    def _workflow(self, workflow: model.Workflow, at: KeyPath) -> model.Workflow:
        states = {}
        for name, state in workflow.states.items():
            here: KeyPath = (*at, "states", name)
            transitions = {
                key: self._transition(transition, (*here, "transitions", key))
                for key, transition in state.transitions.items()
            }
            states[name] = replace(
                state, transitions=transitions, on_enter=self._on_enter(state.on_enter, (*here, "onEnter"))
            )
        return replace(workflow, states=states)

    def _transition(self, stated: model.Transition, at: KeyPath) -> model.Transition:
        executor, guards, schema = stated.executor, stated.guards, stated.input_schema
        reliability = stated.reliability
        if executor is not None and executor.capability is not None:
            base = self._named(executor.capability, (*at, "executor", "capability"))
            if base is None:
                return replace(stated, executor=None)
            executor, guards = base.executor, (*base.guards, *guards)
            reliability = reliability or base.reliability
            schema = schema if schema is not None else base.input_schema
        if executor is None:
            return stated
        reliability = self._with_fallbacks(reliability, at)
        return replace(stated, executor=executor, guards=guards, input_schema=schema, reliability=reliability)

    def _on_enter(self, stated: model.OnEnter | None, at: KeyPath) -> model.OnEnter | None:
        if stated is None or stated.executor is None:
            return stated
        executor, reliability = stated.executor, stated.reliability
        if executor.capability is not None:
            base = self._named(executor.capability, (*at, "executor", "capability"))
            if base is None:
                return replace(stated, executor=None)
            executor, reliability = base.executor, reliability or base.reliability
        return replace(stated, executor=executor, reliability=self._with_fallbacks(reliability, at))

    def _with_fallbacks(self, reliability: Reliability | None, at: KeyPath) -> Reliability | None:
        """The reliability with fallbacks that name a capability replaced by the executor of that capability."""
        if reliability is None or reliability.fallback is None:
            return reliability
        executors = []
        for number, step in enumerate(reliability.fallback.executors):
            if step.capability is not None:
                here: KeyPath = (*at, "reliability", "fallback", "executors", number, "capability")
                base = self._named(step.capability, here)
                if base is None:
                    continue
                step = base.executor
            executors.append(step)
        fallback = replace(reliability.fallback, executors=tuple(executors)) if executors else None
        return replace(reliability, fallback=fallback)


def _joined(base: Resolved, inner: Resolved) -> Resolved:
    """Combines a capability that wraps another one with the capability that it executes."""
    return replace(
        base,
        guards=(*base.guards, *inner.guards),
        reliability=inner.reliability or base.reliability,
        input_schema=base.input_schema if base.input_schema is not None else inner.input_schema,
    )


def _distinct(*parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for part in parts for word in part))


def executors_of(workflow: model.Workflow) -> Iterator[tuple[KeyPath, Executor, Reliability | None]]:
    """Every executor of a workflow, including fallbacks, with its place and its reliability."""
    for name, state in workflow.states.items():
        at: KeyPath = ("states", name)
        stated: list[tuple[KeyPath, Executor | None, Reliability | None]] = [
            ((*at, "transitions", key), transition.executor, transition.reliability)
            for key, transition in state.transitions.items()
        ]
        if state.on_enter is not None:
            stated.append(((*at, "onEnter"), state.on_enter.executor, state.on_enter.reliability))
        for here, executor, reliability in stated:
            if executor is None:
                continue
            yield (*here, "executor"), executor, reliability
            if reliability is not None and reliability.fallback is not None:
                for number, other in enumerate(reliability.fallback.executors):
                    yield (*here, "reliability", "fallback", "executors", number), other, reliability
