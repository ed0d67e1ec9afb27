"""An agent in a process of its own that works until there is nothing to do, and dies of each item called poison.

It says which item it has begun.
"""

from __future__ import annotations

import os
import signal
import sys
import uuid
from threading import Event
from time import monotonic

from tests.support.fleets import Http

PATIENCE = 8.0
"""Seconds without an item after which it stops; longer than claims and back-offs last."""


def work(port: int, agent: str) -> None:
    """Claims, starts and completes items, asking again while there is none."""
    actor = {"id": agent, "kind": "subagent"}
    pause, until = Event(), monotonic() + PATIENCE
    with Http(port) as fleet:
        while True:
            claims = [{"selector": {}, "ttlSeconds": 1}]
            answer = fleet.call("claim_item", actor=actor, claims=claims, requestId=str(uuid.uuid4()))
            item = answer["claimResults"][0].get("itemId")
            if item is None:
                if monotonic() > until:
                    return
                pause.wait(0.05)
                continue
            until = monotonic() + PATIENCE
            fleet.call("advance_item", transitions=[{"itemId": item, "trigger": "start", "actor": actor}])
            title = fleet.call("query_items", operation="get", id=item)["title"]
            print(title, flush=True)
            if title == "poison":
                os.kill(os.getpid(), signal.SIGKILL)
            fleet.call("advance_item", transitions=[{"itemId": item, "trigger": "complete", "actor": actor}])


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2])
