"""Layouts of graphs, made by a process of their own, and the rows of drawings."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from coordinator.console.graphs import layout_worker, layouts
from coordinator.console.graphs.drawing import GraphEdge, GraphNode, cut, graph_rows, structure
from coordinator.console.graphs.layouts import Drawn, Graph, Layouts, NotDrawn
from tests.support.wait import process_alive, wait_until_sync

CHAIN = structure(3, [GraphEdge(0, 1), GraphEdge(1, 2, "true")])


def random_graph(nodes: int, each: int) -> Graph:
    """A dense graph, which takes graphlay long."""
    edges = {(place, place - back) for place in range(nodes) for back in range(1, each + 1) if place >= back}
    return structure(nodes, [GraphEdge(before, place) for place, before in sorted(edges)])


async def in_layouts(graph: Graph, of: Layouts | None = None) -> layouts.Layout:
    made = of or Layouts()
    try:
        return await made.of(graph)
    finally:
        await made.stop()


def test_a_chain_is_drawn_from_left_to_right() -> None:
    found = asyncio.run(in_layouts(CHAIN))
    assert [x for x, _ in found.nodes] == sorted(x for x, _ in found.nodes)
    assert all(0 <= x < found.size[0] and 0 <= y < found.size[1] for x, y in found.nodes)
    (first, *_, last) = found.lines[0]
    assert first[0] == found.nodes[0][0] + 196
    assert last[0] == found.nodes[1][0]
    assert found.labels[0] is None
    assert found.labels[1] is not None


def test_a_structure_is_laid_out_once_whoever_asks() -> None:
    async def asked() -> None:
        made = Layouts()
        found = await asyncio.gather(*(made.of(CHAIN) for _ in range(5)), made.of(structure(2, [])))
        assert all(one is found[0] for one in found[:5])
        assert await made.of(CHAIN) is found[0]
        await made.stop()

    asyncio.run(asked())


def test_what_takes_too_long_is_given_up_while_others_are_served(tmp_path: Path) -> None:
    # The real worker, with less patience.
    quick = tmp_path / "worker.py"
    source = Path(layout_worker.__file__).read_text()
    quick.write_text(source.replace("SECONDS = 5.0", "SECONDS = 0.3"))

    async def asked() -> None:
        made = Layouts((sys.executable, "-P", str(quick)))
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.01)

        counting = asyncio.create_task(count())
        with pytest.raises(NotDrawn, match="too large"):
            await made.of(random_graph(300, 4))
        assert turns > 5  # the event loop went on
        again = time.monotonic()
        with pytest.raises(NotDrawn, match="too large"):
            await made.of(random_graph(300, 4))
        assert time.monotonic() - again < 0.2  # that is known
        assert (await made.of(CHAIN)).size[0] > 0  # by another process
        counting.cancel()
        await made.stop()

    asyncio.run(asked())


def test_a_page_does_not_wait_for_a_slow_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "go"
    os.mkfifo(pipe)
    answer = '{"size": [1, 1], "nodes": [[0, 0]], "lines": [], "labels": []}'
    program = f"import sys; sys.stdin.readline(); open({str(pipe)!r}).read(); print({answer!r}, flush=True); input()"
    monkeypatch.setattr(layouts, "PATIENCE", 0.01)

    async def asked() -> None:
        made = Layouts((sys.executable, "-c", program))
        graph = structure(1, [])
        assert await made.drawn(graph) == Drawn(None, layouts.LATER, layouts.AGAIN)
        others = [await made.drawn(structure(number, [])) for number in range(2, 8)]
        assert others[-1] == Drawn(None, layouts.BUSY, layouts.AGAIN)
        await asyncio.to_thread(pipe.write_text, "")
        assert (await made.of(graph)).size == (1, 1)
        assert (await made.drawn(graph)).layout is not None
        await made.stop()

    asyncio.run(asked())


def test_too_many_nodes_are_refused_without_a_process() -> None:
    with pytest.raises(NotDrawn, match="too large"):
        asyncio.run(in_layouts(structure(layouts.MOST_NODES + 1, [])))


def test_a_worker_that_dies_is_replaced() -> None:
    async def asked() -> None:
        made = Layouts((sys.executable, "-c", "import sys; sys.stdin.readline()"))
        with pytest.raises(NotDrawn, match="could not be drawn"):
            await made.of(CHAIN)
        with pytest.raises(NotDrawn, match="could not be drawn"):
            await made.of(CHAIN)
        await made.stop()

    asyncio.run(asked())


def test_without_graphlay_there_is_no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "find_spec", lambda name: None)
    with pytest.raises(NotDrawn, match="graphlay is not installed"):
        asyncio.run(in_layouts(CHAIN))


def test_the_worker_ends_when_the_front_end_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "frontend.py"
    program.write_text(
        "import asyncio, os\n"
        "from coordinator.console.graphs.layouts import Layouts\n"
        "from coordinator.console.graphs.drawing import structure\n"
        "async def main():\n"
        "    made = Layouts()\n"
        "    await made.of(structure(2, []))\n"
        "    print(made.pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )

    async def killed() -> int:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, str(program), stdout=pipe, cwd=os.getcwd())
        assert process.stdout is not None
        worker = int(await process.stdout.readline())
        assert process_alive(worker)
        process.kill()
        await process.wait()
        return worker

    worker = asyncio.run(killed())
    wait_until_sync(lambda: not process_alive(worker), what="the end of the worker")


def test_states_change_rows_of_nodes_only() -> None:
    found = asyncio.run(in_layouts(CHAIN))
    edges = [GraphEdge(0, 1), GraphEdge(1, 2, "true")]

    def drawn(tone: str) -> list[object]:
        nodes = [GraphNode(f"item:{n}", f"<b>{n}</b>", "work", tone, "work", "#") for n in range(3)]
        return list(graph_rows(found, nodes, edges, {(0, 1)}))

    before, after = drawn("queue"), drawn("work")
    assert [str(row) for row in before[:2]] == [str(row) for row in after[:2]]
    assert len(before) == 2 + 3


def test_titles_are_cut_by_their_width() -> None:
    assert cut("short", 10) == "short"
    assert cut("much too long a title", 10) == "much too…"
    assert cut("画像を署名する", 8) == "画像を…"
    assert "\u202e" not in cut("\u202eevil", 20)
