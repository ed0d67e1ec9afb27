"""Overload: what a front-end does when calls exceed the capacity of the store or of its own CPU.

Every call has a criticality, which its tool declares. While the number of calls in progress in the store is below a
limit, calls are admitted at once. The limit follows the response time of the store: it falls within a second when the
store slows down, and rises again when it recovers (``limit``). The measured time includes the lag of the front-end's
own event loop, so the limit protects its CPU as well. Each class of calls may use only a share of the limit, the least
critical class the smallest: searches are shed first, then new work, then reads. Calls that finish work (heartbeats,
releases, transitions, reports) have a separate hard limit, because shedding them would turn finished work into expired
claims, and so into more work.

A call that finds no room waits briefly in a bounded queue, the most critical calls first. When more calls arrive
than can be answered in time, they are shed at once instead (``admission``). That has to be cheap: a
front-end at twice its capacity sheds more calls than it answers. While others wait, an agent or project
with more than its share in progress is shed (``fairness``). Calls to a failing store are paused, and tried
again later, or when it answers on a new connection (``breaker``).

The callers' side is ``coordinator.client.retries``: when and how often to retry a call that was shed.

Nothing here does I/O: the clock, jitter and measurements are passed in.
"""

from coordinator.overload.admission import SURPLUS, Admission, Ticket
from coordinator.overload.breaker import Breaker
from coordinator.overload.limit import AdaptiveLimit
from coordinator.overload.sharded import ShardedAdmission

__all__ = ["SURPLUS", "AdaptiveLimit", "Admission", "Breaker", "ShardedAdmission", "Ticket"]
