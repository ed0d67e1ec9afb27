"""Steps: the unit of work that workers execute, for flows and for the gateway.

A *run* is one flow or one gateway workflow. Its *kind* says which: ``flows`` or ``gateway``, like the toolset's name. A
*step* is a piece of a run's work, an *attempt* one execution of a step by one worker. All of these are in the store and
change only in scripts; RQ only carries pointers to steps.

**One script per step.** A worker's report is one script call (``report_steps.lua`` of the toolset). It checks the
fence, records the outcome, creates the steps that follow, counts joins, ends the run, hands ready steps to the workers,
and takes the next steps for the reporting worker. So a process that dies leaves nothing half-done. What follows a step
is decided in Python, in the worker, by the ``Planner`` of the run's kind. The decision depends only on the run's
immutable spec and on the outcome; the script commits all of it or nothing.

**Leases and fences.** A step that a worker takes is leased for ``times.LEASE_MS`` by the store's clock. The worker
renews its leases from a thread. When a lease ends, a sweep gives the step another attempt. Attempts have numbers that
only rise, and number and worker together are the fence: a report of an older attempt, or of another worker, is refused.
So each step is executed at least once, and its outcome is recorded exactly once. (A number alone is not enough: a
server restored from a backup assigns it again, though hardly to the same worker; if it does, the worker drops its
attempt. Claims have no worker name to compare, so their fences follow the clock.) Tools get
``StepRun.idempotency_key``, the same for all attempts, to make a retry harmless. A step that was running when several
workers died is given up (``times.MAX_CRASHES``).

**Handing over.** If RQ's queues are in the store's Redis, the script that makes a step ready also writes its RQ job
(``handoff.lua``). If they are elsewhere, it writes to the project's outbox, and a relay in some worker moves the
entries. Job ids consist of run, step and attempt, so moving an entry twice does no harm. Which steps wait is decided by
``step_queue``, not by RQ's list: if a job has vanished, the sweep writes it again.

**Time.** Delays, backoff and the expiry of gates are in a sorted set per project, which the sweep reads. An open gate
that waits for a person is in no set that is polled, so it costs nothing.

**One worker.** A step can be given back for one worker, which has what it needs (``states``). It goes to that worker's
queue, and from there back to its pool (``attempts.lua``); neither a failure nor a crash is counted.

**Older workers.** Scripts keep fields that they do not know. A step may state which protocol it needs
(``times.PROTOCOL``); workers with an older protocol leave it to others.

Not guaranteed: that a tool is called only once; and the order of steps that wait at the same priority. But every busy
worker looks at the longest waiting steps first, ten times a second.

``states`` says which worker has which state of a downstream server. ``model`` has the structs, ``run_kind`` what each
kind provides, ``store`` the calls, and ``lua/modules/steps.lua`` the layout of the keys.
"""
