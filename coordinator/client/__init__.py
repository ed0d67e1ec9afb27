"""The client library: programs that work for a fleet, or that give it work.

    async with Fleet("http://127.0.0.1:8420", token=..., project=..., agent=...) as fleet:
        found = await fleet.call("query_items", {"operation": "search", "tags": "docs"})

``Fleet`` calls any tool of any toolset: ``await fleet.call(tool, arguments)`` returns the structured answer, as
``fleet tools`` shows it, or raises a ``FleetError`` (``errors``). It fills in who acts and a ``requestId``, goes on
through killed front-ends, and repeats what may succeed later, within a budget of a tenth of all calls (``retries``).

``http`` has the connections, ``wire`` what is said over them, ``tools`` which toolset has a tool. Nothing here imports
the server, so that it runs wherever a front-end is reached.
"""

from coordinator.client.errors import ClaimLost, Denied, FleetError, Invalid, NotFound, Refused, Unavailable
from coordinator.client.fleet import Fleet, Observer

__all__ = [
    "ClaimLost",
    "Denied",
    "Fleet",
    "FleetError",
    "Invalid",
    "NotFound",
    "Observer",
    "Refused",
    "Unavailable",
]
