"""What runs: front-ends, workers, MCP on stdin and stdout, and what starts and supervises them.

``frontend``, ``stdio`` and ``worker`` compose one process each, ``up`` a whole fleet on one machine; ``supervision``
keeps processes running. ``fleetfile`` tells other commands which fleet runs on a data directory, ``stores`` finds and
opens its store, ``reload`` rereads the settings. What keeps a process from running is a ``ProcessProblem``.
"""
