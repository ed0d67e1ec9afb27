"""The navigator toolset (seed 002): workflows that the server leads through, and what belongs to them.

An agent starts a workflow and is told where it stands and what it may do; each answer carries a
``state`` that it hands back with the next action. The state is the whole truth about the walk,
signed by keys that the fleet shares, so any process can go on with it at any time, and an older
one leads back to where it was made. Nothing about a walk is kept in Redis. What an action may do is
decided here from the workflow's definition: steps, checkpoints and their effects, conditions,
loops, transitions. A failed action answers with the state as it was.
"""
