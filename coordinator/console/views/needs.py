"""How much waits for a person: a number on every page, beside the link to the inbox."""

from __future__ import annotations

from collections.abc import Mapping

import htpy
from htpy import Node, span

from coordinator.console.inbox.waiting import KINDS, TOOLSET, count_waiting
from coordinator.console.live import INBOX
from coordinator.console.parts import number
from coordinator.console.view import Asked, Region, Rendered, Row, Rows, View, path_of, region_element

APPROVALS = "approvals"
"""The page of the inbox."""
COUNT = "count"


async def _count(asked: Asked) -> Rows:
    kinds = [kind for kind in KINDS if asked.viewer.reads(TOOLSET[kind])]
    counts = await asked.read(count_waiting, asked.viewer.caller, kinds=kinds)
    count = sum(counts.values())
    shown: Node = [span(".unseen")["needs you: "], number(count)]
    return Rows([Row("needs", shown)] if count else [])


def element(asked: Asked, rendered: Rendered) -> Node:
    """The number, if it is not 0."""
    return region_element(asked, COUNT, {COUNT: rendered}, htpy.span, class_="needs", title="wait for a person")


async def _body(asked: Asked, found: Mapping[str, Rendered]) -> Node:
    return htpy.p[htpy.a(href=path_of(APPROVALS, asked.project))["To the inbox: ", element(asked, found[COUNT])]]


VIEW = View("needs", "Needs you", _body, {COUNT: Region(_count, (INBOX,), htpy.span, personal=True)})
