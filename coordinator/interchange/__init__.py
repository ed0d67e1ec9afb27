"""Work from other trackers, and for them: what ``fleet import`` and ``fleet export`` do.

``formats`` has a module for each format, which reads a file into records, the neutral form of ``model``, or writes one.
``mapping`` gives statuses, priorities, types and tags their meaning here; ``shaping`` fits records into the limits of
items: depth, cycles, lengths. ``importing`` makes items of them with the client, so that a second import of the same
source updates what has changed there, and never makes an item twice: an item is found by its tags (``identity``), and
an import holds a claim on the marker of its source (``lock``). ``exporting`` reads a project with the client.

Whole projects, with ids, notes, dependencies, history and attempts, have a format of their own
(``coordinator.projects``): only operators of the store can write those back.
"""
