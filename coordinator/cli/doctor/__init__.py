"""``fleet doctor``: checks everything that the fleet depends on. Silent if all is well.

``command`` is the command; ``store``, ``queues`` and ``host`` have the checks. ``identity`` is a separate command,
because it asks key servers.
"""
