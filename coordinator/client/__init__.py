"""The client library: programs that work for a fleet, or that give it work.

    async with Fleet("http://127.0.0.1:8420", token=..., project=..., agent=...) as fleet:
        found = await fleet.call("query_items", {"operation": "search", "tags": "docs"})

``Fleet`` calls any tool of any toolset: ``await fleet.call(tool, arguments)`` returns the structured answer, as
``fleet tools`` shows it, or raises a ``FleetError`` (``errors``). It fills in who acts and a ``requestId``, goes on
through killed front-ends, and repeats what may succeed later, within a budget of a tenth of all calls (``retries``).

A worker is a loop over jobs, or a handler:

    async for job in fleet.jobs(tags="docs"):
        async with job:
            await job.done(await write(job.title, job.description))

    await fleet.work(handler, slots=4, tags="docs")

``Job`` says what a job has, and what becomes of its item however the work ends. Claims are renewed by a thread of their
own (``renewals``), so that work which keeps the event loop busy costs none.

An orchestrator plans a tree, waits for its end, and reads what came of it:

    tree = await fleet.plan({"title": "Release 2", "children": [{"ref": "build", "title": "Build"}, ...]})
    await tree.finished()
    print(await tree.results())

    run = await fleet.flow("triage", {"start": {...}, ...})
    print(await run.result())

``SyncFleet`` has the same without an event loop. The page README.md has it all, and the wire for other languages.

``calls`` has who makes calls and how they are repeated, ``http`` the connections, ``wire`` what is said over them,
``tools`` which toolset has a tool. ``core`` is what the parts of a fleet share: ``jobs`` has slots and the loop,
``job`` one job, ``metering`` what it has used, ``stopping`` the signals. ``plans`` reads plans,
and reads and writes lists of tasks in Markdown, ``trees`` creates and follows trees, ``flows`` is about
workflows. Nothing here imports the server, so that it runs wherever a front-end is reached.
"""

from coordinator.client.calls import Observer
from coordinator.client.errors import (
    ClaimLost,
    Denied,
    FleetError,
    Invalid,
    JobStopped,
    NotFound,
    Refused,
    Unavailable,
)
from coordinator.client.fleet import Fleet
from coordinator.client.flows import Run
from coordinator.client.job import Job
from coordinator.client.sync import SyncFleet
from coordinator.client.trees import Tree

__all__ = [
    "ClaimLost",
    "Denied",
    "Fleet",
    "FleetError",
    "Invalid",
    "Job",
    "JobStopped",
    "NotFound",
    "Observer",
    "Refused",
    "Run",
    "SyncFleet",
    "Tree",
    "Unavailable",
]
