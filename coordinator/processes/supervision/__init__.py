"""Keeps the processes of a fleet running.

From the outside in: ``running`` is shared by the commands ``up`` and ``serve``. ``supervisor`` keeps processes up, each
as a ``supervised.Child``, and respawns those that exit after a pause; ``store_supervisor`` does so for the
embedded server. ``spawner`` starts processes as forks of the ``template``, which has imported everything. In such a
process, ``child`` reads its ``brief`` and runs one of the ``roles``; ``lifecycle`` reports its state and ties it to its
supervisor. ``init`` does the duties of process 1 in a container. ``sockets`` has the ports that all front-ends share.
"""
