"""A module for each format. Each has ``read`` (bytes, or of folders a path, to a ``Source``) and ``STATES``: what the
statuses of the format mean, in lower case; ``''`` is an item without one.
"""
