"""The navigator toolset (README.md): the server leads agents through workflows, and shows their definitions.

An agent starts a workflow and gets its position and the available actions. Each answer carries a ``state``, which the
agent passes to the next call. The state holds the whole walk and is signed by keys that the fleet shares, so any
process can continue from it at any time, and an older state resumes where it was issued. Nothing about a walk is
kept in Redis. The workflow's definition decides what an action may do: steps, checkpoints and their
effects, conditions, loops, transitions, and workflows that run others: a walk that waits for another one is part of
the other one's state. A failed action returns the unchanged state.
"""
