"""``fleet doctor``: is everything as it should be? Silent when it is.

``command`` is the command, ``store`` and ``host`` judge what it looks at; ``identity`` is a command of
its own, because it asks key servers.
"""
