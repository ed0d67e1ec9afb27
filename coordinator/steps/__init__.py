"""Steps: the unit of work that workers execute, for flows and for the gateway.

A *run* is one flow or one gateway workflow; its *kind* says which of both: ``flows`` or ``gateway``, as the toolset
is named. A *step* is a piece of its work, an *attempt* one execution of a step by one worker. All of it
is in the store and changes only in scripts; RQ carries pointers to it.

**One script per step.** A worker's report is one script call (``report_steps.lua`` of the toolset): it checks
the fence, records the outcome, creates what follows, counts joins, ends the run, hands what is
ready to the workers and takes the next steps for the worker that reports. So no process that dies leaves
anything half done. What follows a step is decided in Python, by the
``Planner`` of the run's kind in the worker, from the run's immutable spec and the outcome alone; the script commits
the decision or refuses all of it.

**Leases and fences.** A step that is taken is leased for ``times.LEASE_MS`` by the store's clock. The
worker renews its leases from a thread. When one ends, a sweep gives the step another attempt,
with a number that only rises: that is the fence. A report under an older number is refused.
So each step is executed at least once, and its outcome recorded exactly once; tools get
``StepRun.idempotency_key``, the same for all attempts, to make a repetition harmless. A step under
which several workers died is given up (``times.CRASHES``).

**Handing over.** If RQ's queues are in the store's Redis, the script that makes a step ready also writes its RQ job
(``handoff.lua``). If they are elsewhere, it writes to the project's outbox, and a relay in some worker moves the
entries. Job ids consist of run, step and attempt, so moving an entry twice does no harm. ``step_queue`` decides which
steps wait, not RQ's list: the sweep finds a job that vanished and writes it again.

**Time.** Delays, backoff and the expiry of gates are in a sorted set per project, which the sweep reads. An open gate
that waits for a person is in no set that is polled, so it costs nothing.

**Older workers.** Scripts keep fields that they do not know. A step may state which protocol it needs
(``times.PROTOCOL``); workers with an older protocol leave it to others.

Not guaranteed: that a tool is called only once. Nor the order of steps that wait at the same priority; but every busy
worker looks at the longest waiting ones first ten times a second.

``model`` has the structs, ``run_kind`` what each kind provides, ``store`` the calls, and ``lua/include/step.lua`` the
layout of the keys.
"""
