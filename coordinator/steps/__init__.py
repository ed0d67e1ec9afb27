"""Steps: the unit of work that workers execute, for flows and for the gateway.

A *run* is one flow or one gateway workflow; its *kind* says which of both: ``flows`` or ``gateway``, as the toolset
is named. A *step* is a piece of its work, an *attempt* one execution of a step by one worker. All of it
is in the store and changes only in scripts; RQ carries pointers to it.

**One script per step.** A worker's report is one script call (``report_steps.lua`` of the toolset): it checks
the fence, records the outcome, creates what follows, counts joins, ends the run, hands what is
ready to the workers and takes the next steps for the one that reports. So between two calls
nothing is half done, whoever dies. What follows a step is decided in Python, by the
``Planner`` of the run's kind in the worker, from the run's immutable spec and the outcome alone; the script commits
the decision or refuses all of it.

**Leases and fences.** A step that is taken is leased for ``times.LEASE_MS`` by the store's clock. The
worker renews its leases from a thread. When one ends, a sweep gives the step another attempt,
with a number that only rises: that is the fence. A report under an older number is refused.
So each step is executed at least once, and its outcome recorded exactly once; tools get
``StepRun.idempotency_key``, the same for all attempts, to make a repetition harmless. A step under
which several workers died is given up (``times.CRASHES``).

**Handing over.** Where RQ's queues are in the store's Redis, scripts write RQ's jobs themselves, in the same
run as the change that caused them (``handoff.lua``). Where they are elsewhere, scripts write to the
project's outbox, and a relay in some worker moves the entries; job ids are made of run, step and
attempt, so moving one twice does no harm. A job that vanished is found by the sweep and
written again: the truth about what waits is ``step_queue``, not RQ's list.

**Time** (delays, backoff, expiry of gates) is a sorted set per project, which the sweep looks at. What
waits for people, an open gate, is in no set that anybody looks at, and costs nothing.

**Older workers.** Fields that a script does not know stay as they are, and a step may say which protocol a
worker needs (``times.PROTOCOL``): one that knows less leaves it to others.

Not promised: that a tool is called once; the order of steps that wait at the same priority,
beyond that the longest waiting ones are looked at first ten times a second by every busy worker.

``model`` has the structs, ``run_kind`` what a kind gives, ``store`` the calls, ``lua/include/step.lua`` the layout.
"""
