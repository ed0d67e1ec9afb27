"""Workflows of steps: graphs that workers execute exactly as recorded (seed 003).

A flow is judged once, when it is created (``rules/check.py``): afterwards no step can be
stranded or doubled whatever the results are, because every accepted graph is made of sequences,
choices and forks that join (``rules/graph.py`` has the argument). What follows a step is a
pure function of the flow and the step's outcome (``rules/planner.py``). The worker asks it with
the outcome in hand; one script then records the outcome, counts joins, creates what follows
and hands it to the queue, or refuses all of it because the attempt is not the present one any
more (``coordinator.steps``). So between two scripts nothing is half done, whoever dies.

``contract`` has arguments and results, ``store`` the typed calls of the scripts in ``lua``, ``run_kind``
what workers get from this toolset, ``tools`` the five tools.
"""
