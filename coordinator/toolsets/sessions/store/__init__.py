"""Typed calls of this toolset's scripts."""
