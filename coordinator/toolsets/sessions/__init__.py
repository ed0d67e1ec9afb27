"""Workflow sessions by signed token (README.md).

A session is a record in Redis: its position, the pending checkpoint, the answers given, the
activities left, and the trace. It changes only in Lua scripts. A token is a signed snapshot of that record, in
a fixed form (``rules/tokens.py``). It authenticates a call, names the session, and holds the state that its holder
knows. Three rules follow:

* The record decides what is allowed. A pending checkpoint blocks the session, whatever an older token says. It is
  answered once, and its timers run by Redis's clock from the yield.
* The token decides what a call is about. Transitions are validated, and activities and skills are read, from the
  position in the token. If the session has moved on since, the call warns. ``start_session`` with a token returns a
  token at the session's current position.
* Tokens of one session are ordered. Each answered call raises the record's counter, which is the ``seq`` of the new
  token. So a handle of an earlier yield never answers a later one, and tokens from before and after a take-over
  can be distinguished.

A session is completed when ``next_activity`` is called with one of the ends (``__terminal__``,
``workflow-end``, ``end-workflow``) from an activity that may be the last. An activity may be the last if it has
no way out, if one of its targets is that end, or if every way out has a condition or needs the answer to a
checkpoint. Moving to another activity reopens the session, unless its work item has another open session of
the workflow by then.

A session can be bound to a work item (``start_session`` with ``item_id``). That needs a live claim of the actor, and
the session then advances only under that claim. After it expires, the next agent that claims the item takes over the
session, with all its answers, by showing the new claim. Scripts read claims through
``store/lua/records/leases.lua``; the toolsets do not import each other.

Everything that grows is bounded: a trace keeps its last 5,000 events, shows 2 MB of them, and puts at most 1,000
of them into one trace token; a call has at most 50 warnings; answers are one per checkpoint; a session
ages out ``workflows.session_days`` after its last call. Session tokens are signed with the project's keys
themselves (``store/signing_keys.py``), because their form is fixed bit by bit, trace tokens with keys derived
from these; any key still kept verifies.

``lua/modules/sessions.lua`` has the layout, ``bindings.lua`` binding and take-over, ``asked.lua`` which
yield a handle refers to. Tokens and trace tokens are in ``rules/tokens.py`` and ``rules/trace.py``.
"""

from typing import TYPE_CHECKING

from coordinator.toolsets.face import names_of

if TYPE_CHECKING:
    from coordinator.toolsets.sessions.contract.results import TraceEvent
    from coordinator.toolsets.sessions.rules.answers import KeptAnswer
    from coordinator.toolsets.sessions.store.listing import AnsweredCheckpoint, SessionRow, answered_checkpoints
    from coordinator.toolsets.sessions.store.listing import count_open, list_sessions, sessions_of_item
    from coordinator.toolsets.sessions.tools.people import EVENTS, SeenSession
else:
    __getattr__ = names_of(__name__, __file__)
