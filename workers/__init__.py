"""Workers: RQ workers that execute the steps of flows and of the gateway's workflows.

``process`` starts a worker and stops it. Its parts:

- ``engine``: slots on one event loop, and the traffic with the store; ``attempts``: one attempt of a step, from its
  start to its report
- ``listener``: waits for work; ``heartbeat``: a thread that renews leases; ``sweeper``: expired leases, timers,
  vanished jobs; ``relay``: moves jobs to the queues where these are in another Redis
- ``worker``: the worker as RQ sees it; ``display``: the long steps as RQ sees them; ``queues``: RQ's queues
- ``run_kinds``: whose steps are executed; ``tools``: what steps of flows can call; ``gateway``: what executes the
  gateway's; ``connections``: what both reach; ``downstream``: sessions with MCP servers;
  ``isolated``: Python callables in child processes
- ``steps``: the functions that an RQ job may name; ``single``: one step in a stock RQ worker

``coordinator.steps`` explains steps, leases and fences.

**Keys.** All of RQ's keys begin with ``fc:{RQ}:``. No project can have that tag, so RQ's
data is apart from every project's, an access list of ``fc:*`` covers the whole product,
and on a cluster RQ has one slot. RQ reads its prefix from the environment when it is
imported, once per process, so it is set here, before any module of this package imports
RQ. Stock tools see the same queues with the same variable, and a stock worker can take the
jobs (slowly: it loads the product for each, or lacks most of what makes a worker safe):

    RQ_KEY_PREFIX='fc:{RQ}' rq info
    RQ_KEY_PREFIX='fc:{RQ}' FLEET_REDIS_URL=... rq worker --serializer json fleet-steps.high fleet-steps fleet-steps.low

**Jobs** are JSON, never pickles: whoever can write to Redis must not be able to run code
of their own. For the same reason a worker runs only functions of ``workers.steps``. The job of a
step is a pointer, ``workers.steps.run(project, run, step, attempt)``; an engine goes by the pointer
and never calls that function, which is for stock workers.

**Queues.** One per pool and priority. RQ takes a job from a single queue by moving it to a
second list in one command; from several it pops, and a job is lost when the worker dies in
between. Here a script takes pointers from several queues and leases their steps in one go,
so there is no between. What is no pointer of ours goes to RQ's intermediate list, as RQ does it.

**What RQ sees of a worker:** its registration, heartbeat and state; it obeys ``shutdown``, ``stop-job``,
suspend and resume, and runs plain jobs one by one in a thread. It does not see each step: a
step that is taken by the worker whose report made it ready never becomes a job.
"""

import os
import sys

from coordinator.steps.handoff import RQ_PREFIX

__all__ = ["RQ_PREFIX"]

if "rq" in sys.modules and os.environ.get("RQ_KEY_PREFIX") != RQ_PREFIX:
    raise ImportError(f"import workers before rq, or set RQ_KEY_PREFIX={RQ_PREFIX} in the environment")
os.environ["RQ_KEY_PREFIX"] = RQ_PREFIX
