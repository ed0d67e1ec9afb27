"""The same act asks for the same confirmation in every view."""

from __future__ import annotations

import json
from collections import defaultdict
from html.parser import HTMLParser
from typing import Any

import pytest

from coordinator.client import SyncFleet
from coordinator.console.views import VIEWS
from coordinator.console.views.needs import APPROVALS
from tests.console.asking import ask_gate
from tests.console.busy import address_of, fill_project
from tests.console.items import claim, create
from tests.console.visitors import operator
from tests.support.fleets import RunningFleet

UNASKED = ("workflow.submit", "workflow_step_ready", "respond_checkpoint", "end_claim", "workflow_cancel")
"""Calls that nobody takes back."""


class Acts(HTMLParser):
    """What the buttons and forms of pages do, each with what it asks: question, reason, whether that is needed."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, set[tuple[str, ...]]] = defaultdict(set)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "data-action" not in given:
            return
        call = given["data-action"].rpartition("/")[2]
        asked = given.get("data-confirm", "")
        # A question names what it is about: its first word says what is asked.
        told = (asked.split(" ")[0] if asked else "", given.get("data-reason", ""), given.get("data-needed", ""))
        self.found[f"{call} {self._act(json.loads(given['data-arguments']))}"].add(told)

    @staticmethod
    def _act(arguments: Any) -> str:
        """What tells acts of one call apart."""
        (first,) = arguments.get("transitions") or arguments.get("items") or [{}]
        fields = sorted(first.keys() - {"id", "itemId", "parentId"}) if "trigger" not in first else []
        names = (arguments.get("operation"), arguments.get("trigger"), first.get("trigger"), *fields)
        return " ".join(name for name in names if name)


@pytest.fixture
def acts(running: RunningFleet, named: str, fleet: SyncFleet) -> Acts:
    """Those of all views of a project, with the menus of cards."""
    ids = fill_project(running.state.base_url, named)
    ask_gate(fleet)
    (held, quiet) = create(fleet, "Held", "Quiet")
    claim(fleet, held, agent="late")
    visitor, found = operator(running), Acts()
    pages = [address_of(view, named, ids) for view in VIEWS.values()]
    pages += [f"/console/p/{named}/item/{item}" for item in (held, quiet)]
    for path in pages:
        found.feed(visitor.open(path).text)
    inbox = visitor.open(f"/console/p/{named}/{APPROVALS}").text
    for link in set(_Links(inbox).shown):
        found.feed(visitor.open(link).text)
    return found


class _Links(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.shown: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href") or ""
        if "show=" in address:
            self.shown.append(address)


def test_the_same_act_asks_for_the_same(acts: Acts) -> None:
    assert {call.split(" ")[0] for call in acts.found} >= {*UNASKED, "advance_item", "manage_items", "complete_tree"}
    for act, asked in acts.found.items():
        if not act.startswith(("workflow.submit", "respond_checkpoint")):  # they begin with the names of the answers
            assert len(asked) == 1, (act, asked)
    for act, asked in acts.found.items():
        if act.startswith(UNASKED):
            assert all(question for question, _, _ in asked), (act, asked)
