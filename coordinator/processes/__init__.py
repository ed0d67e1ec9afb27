"""What runs: front-ends, workers, MCP on stdin and stdout, and what starts and supervises them.

Each process is a list of services (``coordinator.service``), composed in one place: ``frontend``, ``stdio``, ``up`` (a
whole fleet on one machine) and ``workers.process``. They start in order and stop in reverse; a drain is the stop of the
last ones, with time to finish calls. ``supervision`` keeps processes running. ``fleetfile`` tells other commands which
fleet runs on a data directory. ``stores`` finds and opens its store, ``target_store`` the one that a project is copied
to. ``reload`` rereads the settings, ``step_tools`` lists what workers can call.
What keeps a process from running is a ``ProcessProblem``.
"""
