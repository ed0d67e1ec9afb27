"""Typed calls of the toolset's scripts: the only code that knows their arguments and replies."""
