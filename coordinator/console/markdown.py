"""Markdown of others as elements: no HTML of theirs, no images, links only where they write them and to http(s)."""

from __future__ import annotations

import asyncio
from functools import lru_cache

import htpy
from htpy import Node, a, br, code, fragment, pre
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from markupsafe import Markup

from coordinator.console.parts import number, plain

LONGEST = 8_000
"""Characters of a text that are shown as Markdown, which takes a tenth of a second; the rest is as it was written."""
_SHORT = 1_000
"""A text that is shorter takes less than a millisecond, mostly."""
_ELEMENTS = {
    "paragraph": htpy.p,
    "bullet_list": htpy.ul,
    "list_item": htpy.li,
    "blockquote": htpy.blockquote,
    "table": htpy.table,
    "thead": htpy.thead,
    "tbody": htpy.tbody,
    "tr": htpy.tr,
    "th": htpy.th,
    "td": htpy.td,
    "em": htpy.em,
    "strong": htpy.strong,
    "s": htpy.s,
}


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802 - the library's name
        return url.lower().startswith(("http://", "https://"))


_parser = _Parser("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable(["image", "autolink"])


async def markdown(text: str, most: int = LONGEST) -> Node:
    """A text in Markdown as elements. Long ones are parsed in a thread, as the process also answers agents."""
    return _rendered(text, most) if len(text) < _SHORT else await asyncio.to_thread(_rendered, text, most)


@lru_cache(maxsize=128)
def _rendered(text: str, most: int) -> Markup:
    begun, rest = plain(text[:most]), plain(text[most:])
    nodes = [_node(child) for child in SyntaxTreeNode(_parser.parse(begun)).children]
    if rest:
        nodes += [htpy.p(".dim")[f"as it was written, {number(len(rest))} characters:"], pre[rest]]
    return fragment[nodes].__html__()


def _node(node: SyntaxTreeNode) -> Node:
    kind = node.type
    if kind in ("text", "html_inline", "html_block"):
        return node.content
    if kind == "softbreak":
        return "\n"
    if kind == "hardbreak":
        return br
    if kind == "hr":
        return htpy.hr
    if kind in ("fence", "code_block"):
        return pre[code[node.content]]
    if kind == "code_inline":
        return code[node.content]
    inside = [_node(child) for child in node.children]
    if kind == "inline" or (kind == "paragraph" and node.hidden):
        return inside
    if kind == "link":
        href = str(node.attrs["href"])
        return a(href=href, rel="noopener noreferrer", target="_blank", title=href)[inside]
    if kind == "heading":
        return htpy.p(f".heading.{node.tag}")[inside]  # no heading, because it is not one of the page's
    if kind == "ordered_list":
        return htpy.ol(start=str(node.attrs.get("start", 1)))[inside]
    return _ELEMENTS[kind][inside]
