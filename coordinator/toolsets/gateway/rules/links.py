"""Links: the useful next calls, with the known arguments (README.md, 'Links')."""

from __future__ import annotations

from itertools import islice
from typing import Any

from msgspec import UNSET

from coordinator.settings.sections.gateway.model import PROXY, Transition, Workflow
from coordinator.toolsets.gateway.contract.base import Link
from coordinator.toolsets.gateway.rules import machine
from coordinator.toolsets.gateway.rules.catalogue import CAPABILITY, WORKFLOW, CatalogueItem
from coordinator.toolsets.gateway.rules.checks import needs_nesting
from coordinator.toolsets.gateway.rules.guards import Circumstances

MOST = 100
"""Most links in one answer about an instance."""
_PREFIX = "gw_"
_NESTED = "Its parameters belong in input.arguments, because one of them is called 'capability' or 'arguments'."


class Links:
    """Makes links.

    Args:
        underscore: names of tools are published with underscores instead of dots.
    """

    def __init__(self, underscore: bool = False) -> None:
        self._underscore = underscore

    def method(self, tool: str) -> str:
        """The published name of one of the gateway's tools."""
        return _PREFIX + tool.replace(".", "_") if self._underscore else tool

    def home(self) -> Link:
        """The link to the whole catalogue."""
        return self._link("home", "gateway.home", {})

    def next(self, cursor: str) -> Link:
        """The link to what follows in the catalogue."""
        return self._link("next", "gateway.home", {"cursor": cursor})

    def search(self) -> Link:
        return self._link("search", "gateway.search", {"query": ""})

    def describe(self, id: str) -> Link:
        """The link to the details of an item."""
        return self._link("describe", "gateway.describe", {"id": id})

    def explain(self, definition: str) -> Link:
        """The link to the explanation of a workflow."""
        return self._link("explain", "workflow.explain", {"definitionId": definition})

    def myself(self, workflow: str) -> Link:
        """The link to the present state of an instance."""
        return self._link("self", "workflow.get", {"workflowId": workflow})

    def result(self, workflow: str, key: str, offset: int = 0) -> Link:
        """The link to a page of a value that is kept whole."""
        more = {"offset": offset} if offset else {}
        rel = "next" if offset else "result"
        return self._link(rel, "workflow.get", {"workflowId": workflow, "result": key, **more})

    def start(self, item: CatalogueItem, *, with_schema: bool = False) -> list[Link]:
        """The link that starts an item. A connection cannot be started, so its link leads to the search."""
        nested = item.kind == CAPABILITY and needs_nesting(item.schema)
        if item.kind == CAPABILITY:
            args: dict[str, Any] = {"definitionId": PROXY, "input": {"capability": item.id}}
            if nested:
                args["input"]["arguments"] = {}
        elif item.kind == WORKFLOW:
            args = {"definitionId": item.id, "input": {}}
        else:
            return [self.search()]
        link = self._link("start", "workflow.start", args)
        if with_schema and item.schema is not None:
            link.input_schema = dict(item.schema)
        if nested:
            link.description = _NESTED
        return [link]

    def start_again(self, definition: str) -> Link:
        return self._link("start", "workflow.start", {"definitionId": definition, "input": {}})

    def transitions(
        self, id: str, workflow: Workflow, state: str, version: int, at: Circumstances, retry: str = ""
    ) -> list[Link]:
        """The links to every legal move of a principal.

        A state whose transitions are all deterministic is normally left automatically. If an instance is stuck there,
        its transitions are offered.

        Args:
            retry: the transition before which the chain stopped, to be submitted by hand.
        """
        legal = dict(machine.offered(workflow, state, at))
        transitions = workflow.states[state].transitions
        if retry in transitions:
            legal.setdefault(retry, transitions[retry])
        elif machine.chains(workflow.states[state]):
            legal = dict(machine.stuck(workflow, state, at))
        return [self._move(id, version, name, transition, at) for name, transition in islice(legal.items(), MOST)]

    def _move(self, id: str, version: int, name: str, transition: Transition, at: Circumstances) -> Link:
        arguments = machine.prefilled(transition, at.scope)
        args = {"workflowId": id, "expectedVersion": version, "transition": name, "arguments": arguments}
        link = self._link("transition", "workflow.submit", args)
        link.title = transition.title or name
        link.description = transition.description or UNSET
        link.actor = transition.actor if transition.actor != "agent" else UNSET
        if transition.input_schema is not None:
            link.input_schema = transition.input_schema
        return link

    def _link(self, rel: str, tool: str, args: dict[str, Any]) -> Link:
        return Link(rel=rel, method=self.method(tool), args=args)
