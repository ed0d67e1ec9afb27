"""The five lines that are a complete worker, as they stand on the page, in a process of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from coordinator.client import SyncFleet
from tests.support import pages
from tests.support.fleets import RunningFleet, environment

PAGE = pages.read(pages.ROOT / "coordinator" / "client" / "README.md")


def test_five_lines_are_a_complete_worker(running: RunningFleet, named: str, tmp_path: Path) -> None:
    (block, *_) = [block for block in PAGE.blocks if block.language == "python"]
    assert len([line for line in block.text.splitlines() if line]) == 5
    script = tmp_path / "worker.py"
    script.write_text(block.text.replace("http://127.0.0.1:8420", running.state.base_url))
    with SyncFleet(running.state.base_url, project=named, kind="orchestrator") as opened:
        plan = {
            "title": "Docs",
            "children": [{"title": "a", "tags": "docs"}, {"title": "b", "tags": "docs", "after": "a"}],
        }
        tree = opened.plan(plan)
        with subprocess.Popen([sys.executable, str(script)], env=environment(FLEET_PROJECT=named)) as worker:
            try:
                assert tree.finished(timeout=60)["terminal"] == 2
            finally:
                worker.send_signal(signal.SIGINT)
            assert worker.wait(30) != 0
        assert tree.results() == {"1": "Text about a", "2": "Text about b"}
