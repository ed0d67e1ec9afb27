"""The gateway: any number of capabilities and state-machine workflows behind seven tools (seed 001).

**A submit is recorded once.** ``lua/begin_transition.lua`` compares the version and puts the token of one
operation on the instance, or refuses; until that operation is over nobody else can begin one.
What follows is a pure function (``rules/planner.py``) of the definition, the instance as it was and
the outcome of the last executor: it says which executor comes next, or what is to be committed.
A front-end asks it when it begins and a worker after each executor; the script that takes the
answer writes context, state, version, evidence, approvals and audit at once, under the fence of
the attempt and the token of the operation, or nothing of it. So whoever dies in between, the
instance is as it was or as it shall be, and the step engine goes on with what was under way
(``coordinator.steps``), with the same idempotency key.

**A definition is taken along.** An instance has the hash of the definitions that it started with;
their text is kept in Redis for as long as an instance needs it (``rules/bundle.py``).

``contract`` has arguments and results, ``rules`` everything that needs no I/O, ``store`` the typed calls
of the scripts in ``lua``, ``run_kind`` what workers get from this toolset, ``tools`` the seven tools. ``operations``
starts and advances instances for all of them: it plans from what it has read (``snapshot``), waits for the end of an
operation with ``listener``, and knows from ``durations`` which calls are quick.
"""
