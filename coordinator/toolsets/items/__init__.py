"""Work items, dependencies, transitions and claims: seed 004.

How it holds together. An item is one small hash; where it stands (role, and whether it is
ready, held by a claim or waiting for a dependency) is one letter, its class. For each scope
an item belongs to (everything, its parent's children, its tags, its type) there is one sorted
set per class, ranked by priority, complexity and age. So the next item is the head of a set,
counts are set sizes, and every change of state is a move between two sets, made in the same
Lua script as its cause and all that follows from it. ``lua/include/item.lua`` has the layout,
``claims.lua`` the rules of TTL and fence, ``graph.lua`` and ``levels.lua`` the dependencies,
``transition.lua`` the cascades, ``merge.lua`` and ``walk.lua`` how searches read the index.
"""
