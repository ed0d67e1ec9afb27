"""Typed calls of the room's scripts: the only place that knows their arguments and replies."""
