"""Work items, dependencies, transitions and claims. README.md has every tool and rule.

The central idea: an item is one small hash, and one number, its score, gives its rank: its class (role, and
whether it is ready, held by a claim, abandoned, waiting, or has open children), then priority, complexity and age. Each
scope has a sorted set with the scores of its items; an item's scopes are its parent's children, the children of any
parent, its tags and its type. Together these sets are the ranked index. So the next item is the first one in a range of
scores, items are counted by counting a range, and a change of state is a new score in each scope. It is written in the
same Lua script as its cause and all consequences.

``fields`` has all fields of an item: their types and limits, how they are stored, shown, written out and asked for.
``field_types`` is what these and the contract are made of.
``contract`` has the structs of arguments and results, ``rules`` the pure functions, ``store`` the calls of the scripts,
and ``tools`` what joins them. A tool is under the same name in each: ``items`` (manage_items), ``query`` (query_items),
``notes`` and ``dependencies`` (manage and query), ``trees`` (create_work_tree, complete_tree), ``transitions``
(advance_item), ``next`` (get_next_item, get_next_status), ``blocked``, ``context`` and ``claims``.

``live`` has what runs in processes beside calls, ``audit`` recounts a project and reports differences. Nothing else in
toolsets imports ``audit``.

``lua`` has the atomic operations and the modules that they share, in a folder for each subject:

- ``layout``: how an item is stored (begin with ``items``), the ranked index (``classes`` are the score), the state of a
  call (``run``), the protocol of changes (``change``) and what a call knows not to exist (``absence``)
- ``claims``: claims, when they end, and attempts; ``agents``: who holds what, drains, questions, what workers take and
  report
- ``times``: back-off, notBefore, quarantine, due times and templates; ``resources``: what items demand and claims hold;
  ``usage``: sums and budgets
- ``selection``: the best item for a selector; ready items that are not for everybody (``apart``); walks past held
  subtrees (``trees``, ``bounds``)
- ``dependencies``: edges, counts of blockers, and levels, which find cycles; ``parents``: children and their counts
- ``changes``: items that are created, changed and deleted, and debts: work too large for one call, done in slices
  after it; ``transitions``: roles and cascades; ``notes``: notes and their schemas
- ``parked``: calls that wait for an item, and who gets it
- ``searches``, ``boards`` (and lists and graphs that people read) and ``reads`` (single items, contexts, waits)
- ``measures``: counts and samples; ``restores``: items of another store
"""
