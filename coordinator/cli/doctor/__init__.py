"""``fleet doctor``: checks everything that the fleet depends on. Silent if all is well.

``command`` is the command; ``store`` and ``host`` have the checks. ``identity`` is a separate command, because it asks
key servers.
"""
