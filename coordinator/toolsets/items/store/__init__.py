"""Typed calls of the toolset's scripts: the only place that knows their arguments and replies."""
