"""Work items, dependencies, transitions and claims. README.md has every tool and rule.

The central idea: an item is one small hash, and one number, its score, gives its rank: its class (role, and
whether it is ready, held by a claim, abandoned, waiting, or has open children), then priority, complexity and age. Each
scope has a sorted set with the scores of its items; an item's scopes are its parent's children, the children of any
parent, its tags and its type. Together these sets are the ranked index. So the next item is the first one in a range of
scores, items are counted by counting a range, and a change of state is a new score in each scope. It is written in the
same Lua script as its cause and all consequences.

``contract`` has the structs of arguments and results, ``rules`` the pure functions, ``store`` the calls of the scripts,
and ``tools`` what joins them. A tool is under the same name in each: ``items`` (manage_items), ``query`` (query_items),
``notes`` and ``dependencies`` (manage and query), ``trees`` (create_work_tree, complete_tree), ``transitions``
(advance_item), ``next`` (get_next_item, get_next_status), ``blocked``, ``context`` and ``claims``.

``waiting`` holds parked calls, ``expiring`` puts back what has ended by time, ``metrics`` measures items for
``/metrics``, and ``audit`` recounts a project and reports differences.

Each file in ``lua`` is one atomic operation; ``change`` and ``read`` are their protocols. Shared code is
in ``lua/modules``, by subject:

- layout: ``items`` (begin here), ``claim_record``, ``classes`` (the score), ``index`` (writes the ranked index),
  ``abandoned``, ``batch`` (commands for many items at once), ``schemas`` (note schemas), ``notes``; ``run`` (the
  state of a call), ``terms`` (the settings that come with it)
- claims: ``claims`` (TTL, fence, expiry), ``claim_ends`` (their index by time), ``attempts`` (counted at the end of a
  claim), ``held_counts``, ``expiry`` (what ends by time), ``holds`` (figures for metrics)
- parents: ``children`` (an item with open ones is not offered)
- times: ``held_back`` (back-off, notBefore and quarantine), ``due_times`` (dueAt, templates and their occurrences)
- resources: ``demands`` (what items say), ``resources`` (what claims hold), ``obstacles`` (claims by id), ``fairness``,
  ``resource_gauges`` (figures for metrics)
- usage: ``sums``, ``usage`` (adds to them), ``budgets`` (limits), ``budget_shares`` (figures for metrics)
- ready items that are not for everybody: ``requirements`` (capabilities), ``apart`` (their place in the index),
  ``apart_sets`` (how selectors find them)
- dependencies: ``graph`` (edges), ``blockers`` (counts that decide readiness), ``levels`` and ``neighbours`` (cycle
  check), ``unlink``
- changes: ``creation``, ``reparent``, ``transitions`` (roles and cascades), ``erasure``; ``debts`` and
  ``settle`` (work too large for one call, done in slices after it)
- the best item for a selector: ``selectors`` (its filters), ``selection``, ``candidates``, ``streams``; ``trees`` and
  ``bounds`` (skipping items below claimed ones)
- parked calls: ``waiters``, ``queues``, ``holders`` (who may get items below claimed ones), ``wanted`` (matches an item
  with a waiter), ``serve`` and ``handover`` (hand it out)
- searches: ``ranges``, ``conditions``, ``sorting``, ``merges``, ``offsets`` (pages by index), ``walks`` and
  ``due_walks`` (read items)
- boards and lists that people read: ``rows``, ``windows`` (pages in order of rank), ``subtrees``, ``nodes`` (of
  graphs)
- replies: ``views``, ``tallies`` (counts of children), ``included`` (what claims and contexts include about an item)
"""
