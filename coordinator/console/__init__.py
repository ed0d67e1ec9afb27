"""The console: a live web page where people see and steer the fleet.

Front-ends serve it at ``/console``; like them it is stateless, and nothing of a visitor is kept in a process but open
streams. Python renders all HTML (``htpy`` escapes it by construction); a few ES modules in ``static`` make it live.

- ``app`` routes requests, and sets the headers of every answer; ``assets`` serves static files.
- ``viewer`` says who looks, and what they may see and change.
- ``view`` says what a page is: a body, and regions of rows with keys that stay current. ``views`` has a module a page.
- ``reads`` reads for all tabs of the process together: what they look at alike is read and rendered once.
- ``live`` tells tabs what has changed, over one stream each, from the change feed.
- ``inbox`` reads what waits for people; ``asks`` shows it in full, with ``forms`` for the answers.
- ``frame`` puts a page together; ``parts``, ``tables`` and ``charts`` have what several pages show,
  ``uses`` resources, usage and budgets in few words.
- ``readings`` has the numbers of the fleet and of projects, ``standstill`` says why nothing moves.
"""

from coordinator.console.app import Console

__all__ = ["Console"]
