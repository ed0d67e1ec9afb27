"""Overload: what a front-end does when more is asked of it than the store (or its own CPU) can do.

Every call has a criticality, which its tool declares. As long as calls at work in the store stay
below a limit, they are let in at once. The limit follows how long the store takes to answer, so it
falls within a second when the store slows down and comes back when it does not (``limit``); what a
front-end measures includes the lag of its own event loop, so it guards its CPU as well. Each class
may fill a share of the limit only, the least critical one the smallest: searches are shed first,
then new work, then reads. What finishes work (heartbeats, releases, transitions, reports) is
let in up to a hard bound of its own, because shedding it would turn finished work into expired
claims, and so into more work.

What finds no room waits for a moment in a bounded queue, the most critical first, unless so much
comes that waiting is in vain: then it is turned away at once, which has to cost next to nothing, because a
front-end that is asked for twice what it can do turns away more than it answers
(``admission``). One agent or project that has more at work than its share is turned away while
others wait (``fairness``). A store that fails is left alone and tried again (``breaker``).

The other side, callers that come back when they are told to, is in ``retries``.

Nothing here does I/O: time, jitter and measurements are passed in.
"""

from coordinator.overload.admission import SURPLUS, Admission, Ticket
from coordinator.overload.breaker import Breaker
from coordinator.overload.limit import AdaptiveLimit

__all__ = ["SURPLUS", "AdaptiveLimit", "Admission", "Breaker", "Ticket"]
