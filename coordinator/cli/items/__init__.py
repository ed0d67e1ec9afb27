"""``fleet items``: work items for people, and for agents that have a shell.

The commands call the tools of the toolset items with the client, so its rules, refusals and permissions are the same.
``reading``, ``writing``, ``moving`` and ``watching`` have the commands, ``arguments`` what they take, ``calls`` the
calls that they share, ``tables`` what they print. With ``--json`` they print the answers of the tools. ``ending`` has
the one for operators, which works on the store.
"""
