"""Keeps the processes of a fleet running.

From the outside in: ``running`` is what the commands ``up`` and ``serve`` share. ``supervisor`` keeps processes up,
each as a ``supervised.Child``, and restarts those that end after a ``backoff``; ``store_supervisor`` does so for the
embedded server. ``spawner`` starts processes as copies of the ``template``, which has imported everything. In such a
process, ``child`` reads its ``brief`` and runs one of the ``roles``; ``lifecycle`` reports how it stands and ties it to
its supervisor. ``init`` is what process 1 of a container does. ``sockets`` are the ports that all front-ends share,
``linux`` what only that system can do.
"""
