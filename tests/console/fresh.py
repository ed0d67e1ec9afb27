"""Compares what an open tab shows with what the same address shows to somebody who opens it now."""

from __future__ import annotations

import difflib
import re
from html.parser import HTMLParser

from playwright.sync_api import Page

from tests.console.visitors import NAVIGATION, Visitor
from tests.support.wait import wait_until_sync

_LEFT_OUT = {"noscript", "dialog"}
"""Dialogs have what a person has typed last."""
_VOID = ("input", "br", "hr", "img", "meta", "link")
_SCRIPTED = ("style", "tabindex", "aria-setsize", "aria-posinset", "viewbox", "data-position", "data-again", "open")
"""Attributes that scripts set, or that say what a person has done."""
_SIZED = ("width", "height")
_PASSING = {"changed", "placed", "at", "soon", "gone"}
"""Classes that scripts set."""
_MEASURED = re.compile(r"data-digest='[0-9a-f]+'|[0-9]+([.,][0-9]+)*")
LOOK_MS = 6_000
"""After which every region has been read again that is read at times, or that has waited for its look."""


class _Shown(HTMLParser):
    """The elements and texts of the main part of a page and of its navigation, without what scripts make of them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._open: list[str] = []
        self._inside: list[str] = []
        """The elements that are open, from the one that is compared on; empty: outside of it."""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self._inside and tag not in ("main", "nav"):
            return
        if tag not in _VOID:
            self._inside.append(tag)
        if not _LEFT_OUT.isdisjoint(self._inside):
            return
        given = {name: value or "" for name, value in attrs if name not in _SCRIPTED}
        given["class"] = " ".join(sorted(set(given.get("class", "").split()) - _PASSING))
        if tag == "time":
            given.pop("title", None)
        if tag == "svg":
            given = {name: value for name, value in given.items() if name not in _SIZED}
        told = " ".join(f"{name}={value!r}" for name, value in sorted(given.items()) if value or name != "class")
        self.lines.append(f"<{tag} {told}>")

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag not in _VOID:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] != "time" and _LEFT_OUT.isdisjoint(self._inside) and data.strip():
            self.lines.append(data.strip())


class Tab:
    """An open tab."""

    def __init__(self, page: Page, port: int) -> None:
        self.page = page
        cookies = {one["name"]: one["value"] for one in page.context.cookies()}
        self._visitor = Visitor(port, cookies)
        page.clock.install()

    def _both(self) -> tuple[list[str], list[str]]:
        """What a fresh page shows, and what the tab shows."""
        path = self.page.url.partition(self._visitor.host)[2]
        fresh = self._visitor.ask("GET", path, NAVIGATION)
        assert fresh.status == 200, fresh
        both = _Shown(fresh.text).lines, _Shown(self.page.content()).lines
        if path.startswith("/console/system"):  # it measures the connections that tabs need, too
            both = [_MEASURED.sub("0", line) for line in both[0]], [_MEASURED.sub("0", line) for line in both[1]]
        return both

    def settle(self, change: str, seconds: float = 20) -> None:
        """Waits until the tab shows what a fresh page shows.

        Args:
            change: what has happened, for the message.
        """
        fresh, shown = list[str](), list[str]()

        def same() -> bool:
            nonlocal fresh, shown
            fresh, shown = self._both()
            if fresh != shown:
                self.page.clock.fast_forward(LOOK_MS)
            return fresh == shown

        try:
            wait_until_sync(same, seconds)
        except AssertionError:
            lines = difflib.unified_diff(fresh, shown, "a fresh page", "the open tab", n=3, lineterm="")
            told = "\n".join(lines)
            raise AssertionError(f"After {change}, {self.page.url} is not as a fresh page:\n{told}") from None
