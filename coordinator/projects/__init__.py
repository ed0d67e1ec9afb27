"""Whole projects: counted, written out and restored, and taken to another place.

- ``counting`` finds the projects of a store, with their keys and memory.
- ``dumping`` reads a project into the lines of ``native``, a format of its own that has everything but claims, and
  ``restoring`` writes them back; ``sums`` has the usage in both.
- ``copying`` takes a project to another store, under fences that both stores keep; ``transfer`` has the keys on their
  way, ``passing`` reads the copy before it is served. ``moving`` takes a project to another shard of its cluster.

All of it is for operators, who have the stores. It is given open stores, raises ``errors`` and tells progress through a
function ``say``; commands find the stores, print and choose exit codes (``coordinator.cli.projects``).
"""
