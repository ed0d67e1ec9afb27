"""An orchestrator: plans a tree of work, waits until workers have finished it, and prints what came of it."""

import sys
from pathlib import Path

from coordinator.client import SyncFleet

PLAN = Path(__file__).with_name("plan.md")

if __name__ == "__main__":
    with SyncFleet(kind="orchestrator") as fleet:
        tree = fleet.plan(Path(sys.argv[1]) if len(sys.argv) > 1 else PLAN)
        print(f"planned {tree.id}", flush=True)
        for event in tree.events(kinds=["item.transition"]):
            moved = event["data"]
            print(f"{moved['id'][:8]}: {moved['from']} -> {moved['to']}", flush=True)
        for name, result in tree.results().items():
            print(f"{name}: {result}")
