"""Layouts of graphs, kept by structure; one worker process makes them, which starts when the first one is asked for."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections import OrderedDict
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec

MOST_NODES = 300
MOST_EDGES = 1_500
_MOST_WAITING = 4
"""Graphs that wait for the worker, or are laid out."""
PATIENCE = 0.8
"""Seconds that a page waits for a graph."""
AGAIN = 2
"""Seconds until it looks again."""
_KEPT = 64
"""Layouts."""
_LONGEST_LINE = 16 * 1024 * 1024
_WORKER = Path(__file__).with_name("layout_worker.py")
TOO_LARGE = "This graph is too large to draw. Open a part of it."
LATER = "The graph is being drawn."
BUSY = "The graph will be drawn after some others."
FAILED = "This graph could not be drawn."
NOT_INSTALLED = "Graphs are lists here, because the Python package graphlay is not installed."

Point = tuple[float, float]


class Graph(NamedTuple):
    """The structure of a graph: all that its layout depends on. Sizes are in px."""

    nodes: tuple[Point, ...]
    """Width and height of each."""
    edges: tuple[tuple[int, int, int, int], ...]
    """Places of source and target, width and height of the label; 0: it has none."""


class Layout(msgspec.Struct, frozen=True):
    """Where everything is, from (0, 0) to ``size``."""

    size: Point
    nodes: tuple[Point, ...]
    """The upper left corners."""
    lines: tuple[tuple[Point, ...], ...]
    """Of each edge, from border to border."""
    labels: tuple[Point | None, ...]
    """The centres of labels."""


class NotDrawn(Exception):
    """There is no layout; the message says why, as a sentence."""


class Drawn(NamedTuple):
    """A layout, or why there is none."""

    layout: Layout | None
    why: str = ""
    again: int = 0
    """When to ask again, in seconds; 0: never, as the answer would be the same."""


_decode = msgspec.json.Decoder(Layout).decode


class Layouts:
    """The layouts of one process, which the command ``worker`` makes."""

    def __init__(self, worker: tuple[str, ...] = (sys.executable, "-P", str(_WORKER))) -> None:
        self._command = worker
        self._installed = find_spec("graphlay") is not None
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._made: OrderedDict[Graph, asyncio.Task[Layout]] = OrderedDict()

    async def drawn(self, graph: Graph) -> Drawn:
        """The layout of a graph for a page, which does not wait for it long."""
        try:
            return Drawn(await self.of(graph, PATIENCE))
        except NotDrawn as reason:
            return Drawn(None, str(reason), AGAIN if str(reason) in (LATER, BUSY) else 0)

    async def of(self, graph: Graph, patience: float | None = None) -> Layout:
        """The layout of a graph.

        Args:
            patience: seconds after which it goes on without the caller, who asks again.

        Raises:
            NotDrawn: it is too large or takes too long, too many are being made, or graphlay is not installed.
        """
        if not self._installed:
            raise NotDrawn(NOT_INSTALLED)
        if len(graph.nodes) > MOST_NODES or len(graph.edges) > MOST_EDGES:
            raise NotDrawn(TOO_LARGE)
        making = self._made.get(graph)
        if making is None:
            if sum(not layout.done() for layout in self._made.values()) >= _MOST_WAITING:
                raise NotDrawn(BUSY)
            making = self._made[graph] = asyncio.create_task(self._make(graph), name="graph layout")
            making.add_done_callback(lambda done: self._ended(graph, done))
            while len(self._made) > _KEPT and next(iter(self._made.values())).done():
                self._made.popitem(last=False)
        self._made.move_to_end(graph)
        try:
            async with asyncio.timeout(patience):
                return await asyncio.shield(making)
        except TimeoutError:
            raise NotDrawn(LATER) from None

    @property
    def pid(self) -> int:
        """Of the worker; 0: none was started."""
        return 0 if self._process is None else self._process.pid

    async def stop(self, deadline: float = 0.0) -> None:
        for making in self._made.values():
            making.cancel()
        await asyncio.gather(*self._made.values(), return_exceptions=True)
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def _ended(self, graph: Graph, done: asyncio.Task[Layout]) -> None:
        """Forgets what failed by accident; what took too long would do so again."""
        if done.cancelled() or str(done.exception() or TOO_LARGE) != TOO_LARGE:
            self._made.pop(graph, None)

    async def _make(self, graph: Graph) -> Layout:
        async with self._turn:
            process = await self._worker()
            to_worker, from_worker = process.stdin, process.stdout
            if to_worker is None or from_worker is None:
                raise NotDrawn(FAILED)
            with contextlib.suppress(ConnectionError):  # of a worker that has died
                to_worker.write(msgspec.json.encode(graph) + b"\n")
                await to_worker.drain()
            line = await from_worker.readline()
            if not line:
                raise NotDrawn(TOO_LARGE if await process.wait() == -signal.SIGALRM else FAILED)
            return _decode(line)

    async def _worker(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, stderr=none, limit=_LONGEST_LINE
            )
        return self._process
