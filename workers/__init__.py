"""Workers: RQ workers that execute workflow steps.

**Keys.** All of RQ's keys begin with ``fc:{RQ}:``. No project can have that tag, so RQ's
data is apart from every project's, an access list of ``fc:*`` covers the whole product,
and on a cluster RQ has one slot. RQ reads its prefix from the environment when it is
imported, once per process, so it is set here, before any module of this package imports
RQ. Stock tools see the same queues with the same variable:

    RQ_KEY_PREFIX='fc:{RQ}' rq worker --serializer json fleet-steps
    RQ_KEY_PREFIX='fc:{RQ}' rq info

**Jobs** are JSON, never pickles: whoever can write to Redis must not be able to run code
of their own. For the same reason a worker runs only functions of ``workers.steps``.

**Queues.** A worker has exactly one queue (``fleet-steps``). RQ takes a job from a single
queue by moving it to a second list in one command; from several it pops, and a job is lost
when the worker dies in between.

``queues`` names the queue, ``steps`` holds what may run, ``worker`` is the process's loop.
"""

import os
import sys

from coordinator.steps.handoff import RQ_PREFIX

if "rq" in sys.modules and os.environ.get("RQ_KEY_PREFIX") != RQ_PREFIX:
    raise ImportError(f"import workers before rq, or set RQ_KEY_PREFIX={RQ_PREFIX} in the environment")
os.environ["RQ_KEY_PREFIX"] = RQ_PREFIX
