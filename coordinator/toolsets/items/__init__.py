"""Work items, dependencies, transitions and claims. README.md has every tool and rule.

The central idea: an item is one small hash, and one number, its score, says where it stands: its class (role, and
whether it is ready, held by a claim, abandoned or waiting for a dependency), then priority, complexity and age. Each
scope has a sorted set with the scores of its items; an item's scopes are everything, its parent's children, its tags
and its type. Together these sets are the ranked index. So the next item is the first one in a range of scores, items
are counted by counting a range, and a change of state is a new score in each scope. It is made in the same Lua script
as its cause and everything that follows from it.

``contract`` has the structs of arguments and results, ``rules`` the pure functions, ``store`` the calls of the scripts,
and ``tools`` what joins them. ``waiting`` holds the calls that wait for an item, ``metrics`` measures items for
``/metrics``, and ``audit`` recounts a project and reports what does not agree.

Each script in ``lua`` is one atomic operation. The code they share is in ``lua/include``, by subject:

- layout: ``item`` (begin here), ``claim_record``, ``classes`` (the score), ``texts``, ``index`` (writes the ranked
  index), ``batch`` (the same for many items at once), ``schema`` (note schemas), ``notes``
- claims: ``claims`` (TTL, fence, expiry), ``acquire``, ``releases``, ``abandoned`` (what agents have left), ``holds``
  (figures for metrics)
- dependencies: ``graph`` (edges), ``blockers`` (counts that decide readiness), ``levels`` and ``neighbours`` (cycle
  check), ``unlink``
- changes: ``create``, ``reparent``, ``transition`` (roles and cascades), ``refusal``, ``erase``; ``debts`` and
  ``settle`` (work that is too large for one script and is done in slices after it)
- the best item for a selector: ``filters`` (what it asks), ``select``, ``candidates``, ``streams``, ``positions``;
  ``tree`` and ``beneath`` (passing over what is below claimed items)
- calls that wait: ``waiters``, ``queues``, ``holders`` (who may get what is below claimed items), ``wanted`` (who an
  item is for), ``serve`` (hands it out)
- searches: ``ranges``, ``conditions``, ``sorting``, ``merge``, ``offsets`` (pages by index), ``walk`` (looks at items)
- replies: ``view``, ``rows``, ``ancestors``, ``tallies`` (counts of children), ``pages`` (edges in slices)
"""
