"""``fleet doctor``: checks everything that the fleet depends on. Silent if all is well.

``command`` is the command; ``store``, ``queues``, ``items``, ``connections`` and ``host`` have the checks, ``alerts``
has those that alerts of Prometheus make, too. ``identity`` is a separate command, because it asks key servers.
"""
