"""Work items, dependencies, transitions and claims: seed 004.

How it holds together. An item is one small hash. Where it stands is one number, its score: its
class (role, and whether it is ready, held by a claim or waiting for a dependency), then priority,
complexity and age. For each scope an item belongs to (everything, its parent's children, its
tags, its type) there is one sorted set with that score. So the next item is the first of a range
of scores, counting is counting such a range, and every change of state is one new score per scope,
made in the same Lua script as its cause and all that follows from it. ``lua/include/classes.lua``
and ``item.lua`` have the layout, ``claims.lua`` the rules of TTL and fence, ``graph.lua`` and
``levels.lua`` the dependencies, ``transition.lua`` the cascades, ``merge.lua`` and ``walk.lua`` how
searches read the index.
"""
