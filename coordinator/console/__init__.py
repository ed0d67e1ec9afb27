"""The console: a live web page where people see and steer the fleet.

Front-ends serve it at ``/console``; like them it is stateless, and nothing of a visitor is kept in a process but open
streams. Python renders all HTML (``htpy`` escapes it by construction); a few ES modules in ``static`` make it live.

- ``app`` routes requests, and sets the headers of every answer; ``assets`` serves static files.
- ``viewer`` says who looks, and what they may see and change.
- ``view`` says what a page is: a body, and regions of rows with keys that stay current. ``views`` has a module a page.
- ``reads`` reads for all tabs of the process together: what they look at alike is read and rendered once.
- ``live`` tells tabs what has changed, over one stream each, from the change feed.
- ``signin`` has sessions of visitors; ``acts`` has what people do, ``inbox`` what waits for them, ``items`` what
  several pages show of items, ``graphs`` pictures of their dependencies and trees.
- ``frame`` puts a page together; ``parts``, ``tables`` and ``charts`` have what several pages show,
  ``uses`` resources, usage and budgets in few words.
- ``numbers`` has those of the fleet and of projects, and says why nothing moves.
"""

from coordinator.console.app import Console

__all__ = ["Console"]
