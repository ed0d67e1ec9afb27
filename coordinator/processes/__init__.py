"""What runs: front-ends, workers, MCP on stdin and stdout, and what starts and supervises them.

Each process is a list of services (``coordinator.service``), composed in one place: ``frontend``, ``stdio``, and
``workers.process``. They start in order and stop in reverse; a drain is the stop of the last ones, with time to finish
calls. ``up`` runs a whole fleet on one machine; ``supervision`` keeps processes running. ``fleetfile`` tells other
commands which fleet runs on a data directory, ``stores`` finds and opens its store, ``reload`` rereads the settings.
What keeps a process from running is a ``ProcessProblem``.
"""
