"""Workflows of steps: graphs that workers execute exactly as recorded (README.md).

A flow is checked once, when it is created (``rules/check.py``). After that no step can be stranded or run twice,
whatever the results are, because every accepted graph consists of sequences, choices and forks that join
(``rules/graph.py`` has the argument). The successors of a step are a pure function of the flow and the step's outcome
(``rules/planner.py``). The worker calls it with the outcome. Then one script records the outcome, counts joins, creates
the next steps and hands them to the queue; or it rejects all of that, because the attempt is stale
(``coordinator.steps``). So a process that dies leaves nothing half done.

``contract`` has the arguments and results, ``rules`` everything without I/O, ``store`` the typed calls of the scripts
in ``lua``, ``run_kind`` the part of this toolset that workers use, ``tools`` the five tools.
"""
