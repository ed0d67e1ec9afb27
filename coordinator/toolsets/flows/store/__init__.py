"""Typed calls of the scripts of this room."""
