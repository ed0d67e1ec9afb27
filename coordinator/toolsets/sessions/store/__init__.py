"""Typed calls of this room's scripts."""
