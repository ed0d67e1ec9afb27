"""Workers: RQ workers that execute the steps of flows and of the gateway's workflows.

``process`` starts a worker and stops it. Its parts:

- ``engine``: the slots that execute steps, and the traffic with the store; ``attempts``: one attempt of a step, from
  its start to its report
- ``listener``: waits for work; ``heartbeat``: a thread that renews leases; ``sweeper``: handles expired leases, timers
  and vanished jobs
- ``rq``: the process as RQ's tools see it, and RQ's queues; ``steps``: the functions that an RQ job may name
- ``run_kinds``: the kinds of runs whose steps a worker executes; ``tools``: the tools that steps of flows call;
  ``gateway``: the executors of the gateway's workflows; ``connections``: the servers that both call, and why they fail;
  ``states``: of those that remember something for their callers, what this worker has; ``downstream``: sessions with
  MCP servers
- ``children``: Python callables in child processes, and the guard that ends whatever is left of processes

``coordinator.steps`` explains steps, leases and fences.

**Keys.** All of RQ's keys begin with ``fc:{RQ}:``. No project can have that hash tag, so RQ's
data never mixes with a project's. One access rule, ``fc:*``, covers the whole product,
and on a cluster all of RQ's keys share one slot. RQ reads its prefix from the environment when
it is imported. Therefore it is set here, before any module of this package imports RQ.
Stock tools that get the same variable see the same queues. A stock worker can even take the
jobs, but it loads the product for each job and lacks most of what makes a worker safe:

    RQ_KEY_PREFIX='fc:{RQ}' rq info
    RQ_KEY_PREFIX='fc:{RQ}' FLEET_REDIS_URL=... rq worker --serializer json fleet-steps.high fleet-steps fleet-steps.low

**Jobs** are JSON, never pickles: write access to Redis must not allow running arbitrary code. For the same reason a
worker runs only functions of ``workers.steps``. The job of a step is a pointer, ``workers.steps.run(project, run, step,
attempt)``. An engine follows the pointer and never calls that function, which is for stock workers.

**Queues.** There is one queue per pool and priority. With a single queue, RQ moves a job to a second
list in one command. With several queues it pops the job, which is lost if the worker dies right
after that. Here one script takes pointers from several queues and leases their steps, so nothing can
be lost in between. A job that is not one of our pointers goes to RQ's intermediate list, as in RQ.

**Own queues.** A step whose call needs a state that another worker has (``coordinator.steps.states``) is given back for
the queue of that worker, ``fleet-steps.at.<id>``, which it serves first while it has states. If it is not taken there
within two seconds, because that worker is gone, drains or is busy, a sweep sends it back to its pool. These queues are
not in RQ's set of queues, and their keys expire.

**What RQ sees of a worker:** its registration, heartbeat and state. The worker obeys ``shutdown``,
``stop-job``, suspend and resume, and runs plain jobs one by one in a thread. RQ does not see every step:
if the worker whose report made a step ready also takes it, that step never becomes a job.
"""

import os
import sys

from coordinator.steps.handoff import RQ_PREFIX

__all__ = ["RQ_PREFIX"]

if "rq" in sys.modules and os.environ.get("RQ_KEY_PREFIX") != RQ_PREFIX:
    raise ImportError(f"import workers before rq, or set RQ_KEY_PREFIX={RQ_PREFIX} in the environment")
os.environ["RQ_KEY_PREFIX"] = RQ_PREFIX
