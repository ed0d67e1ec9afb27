"""Whole projects, written out of the store (``dumping``) and restored into it (``restoring``), in the format
``native``; and counted (``counting``).
"""
