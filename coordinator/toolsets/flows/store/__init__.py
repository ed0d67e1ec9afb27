"""Typed calls of the scripts of this toolset."""
