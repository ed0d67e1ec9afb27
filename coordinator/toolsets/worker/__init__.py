"""For agents that only work: five small tools on the items toolset. README.md has every tool and rule.

It has no rules and no Lua of its own: items are claimed, started, finished, released and blocked by the operations of
``coordinator.toolsets.items``, which also hold the calls that wait. So ``worker`` may import ``items``, as the only
toolset that imports another one, and ``items`` knows nothing of it. The two operations that serve a worker are there,
too, beside the modules that they are made of: ``report_work.lua``, and ``take_next.lua``, also with a
report that ends the item before.

``contract`` has the structs of arguments and results, ``tools`` the handlers: ``next`` (work_next, and what it has in
common with ends), ``reports`` (the others), ``agents`` (who calls), ``shown`` (what an agent is told of an item).
"""
