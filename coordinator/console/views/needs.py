"""How much waits for a person: a number on every page, beside the link to the inbox."""

from __future__ import annotations

from collections.abc import Mapping

import htpy
from htpy import Node, span

from coordinator.console.inbox.waiting import KINDS, TOOLSET, count_waiting
from coordinator.console.live import INBOX
from coordinator.console.parts import number
from coordinator.console.view import Region, Rendered, Row, Rows, View, Visit, path_of, region_element

APPROVALS = "approvals"
"""The page of the inbox."""
COUNT = "count"


async def _count(visit: Visit) -> Rows:
    kinds = [kind for kind in KINDS if visit.viewer.reads(TOOLSET[kind])]
    counts = await visit.read(count_waiting, visit.viewer.caller, kinds=kinds)
    count = sum(counts.values())
    badge: Node = [span(".unseen")["needs you: "], number(count)]
    return Rows([Row("needs", badge)] if count else [])


def element(visit: Visit, rendered: Rendered) -> Node:
    """The number, if it is not 0."""
    return region_element(visit, COUNT, {COUNT: rendered}, htpy.span, class_="needs", title="wait for a person")


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    return htpy.p[htpy.a(href=path_of(APPROVALS, visit.project))["To the inbox: ", element(visit, regions[COUNT])]]


VIEW = View("needs", "Needs you", _body, {COUNT: Region(_count, (INBOX,), htpy.span, personal=True)})
