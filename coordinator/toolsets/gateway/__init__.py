"""The gateway: any number of capabilities and state-machine workflows behind seven tools (seed 001).

**A submit takes effect once.** ``lua/begin_transition.lua`` compares the version and marks the instance with the token
of a new operation, or refuses; until that operation is over no other can begin. What happens next is a pure function
(``rules/planner.py``) of the definition, the instance as it was, and the outcome of the last executor: it returns the
next executor, or what to commit. A front-end calls it at the beginning, and a worker after each executor. The script
that takes the result writes context, state, version, evidence, approvals and audit at once, under the fence of the
attempt and the token of the operation, or nothing. So whichever process dies, the instance is as before the
transition or as after it, and the step engine (``coordinator.steps``) continues the operation with the same
idempotency key.

**An instance keeps its definitions.** It holds the hash of the definitions that it started with; their text is kept
in Redis as long as an instance needs it (``rules/bundle.py``).

``contract`` has arguments and results, ``rules`` everything that needs no I/O, ``store`` the typed calls
of the scripts in ``lua``, ``run_kind`` what workers get from this toolset, ``tools`` the seven tools. ``operations``
starts and advances instances for all of them: it reads an instance (``snapshot``), plans from it, and waits with
``listener`` for the end of the operation. ``durations`` remembers which calls are quick.
"""
