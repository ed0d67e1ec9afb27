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

from typing import TYPE_CHECKING

from coordinator.toolsets.face import names_of

if TYPE_CHECKING:
    from coordinator.toolsets.items.contract.agents import AgentEntry, AgentsResult
    from coordinator.toolsets.items.contract.claims import HeldBack
    from coordinator.toolsets.items.contract.context import FullContextResult, GateStatus, ItemContextResult, SchemaNote
    from coordinator.toolsets.items.contract.dependencies import DependencyView, THRESHOLDS
    from coordinator.toolsets.items.contract.included import IncludedItem, IncludedNote
    from coordinator.toolsets.items.contract.query import FullItem
    from coordinator.toolsets.items.contract.specs import ItemSpec
    from coordinator.toolsets.items.contract.transitions import TRIGGERS
    from coordinator.toolsets.items.field_types.base import PHASES, PRIORITIES, ROLES
    from coordinator.toolsets.items.field_types.due_times import Recurs
    from coordinator.toolsets.items.field_types.usage import BudgetLimits, MEASURES, UsageSum
    from coordinator.toolsets.items.fields import Box, COLUMNS, FACTS, FIELDS, FILTERS, Field, Flag, Kind, NAMED
    from coordinator.toolsets.items.live.metrics import ItemMetrics
    from coordinator.toolsets.items.metrics.resources import MODES
    from coordinator.toolsets.items.rules import records
    from coordinator.toolsets.items.rules.board import MAX_ROWS, STATES as BOARD_STATES, Wanted
    from coordinator.toolsets.items.rules.configured import DEFAULT_NAME, labels, schema_config
    from coordinator.toolsets.items.rules.ids import FULL, dashed, no_such_item, to_inner
    from coordinator.toolsets.items.rules.items import Fields, NewItem
    from coordinator.toolsets.items.rules.kinds import FORMS
    from coordinator.toolsets.items.rules.resources import for_people
    from coordinator.toolsets.items.rules.results import JSON
    from coordinator.toolsets.items.rules.roles import PRIORITY_NAMES, ROLE_CODES, ROLE_NAMES, phase_of
    from coordinator.toolsets.items.rules.schema import Schema, SchemaConfig, SchemaSource
    from coordinator.toolsets.items.rules.selection import as_given
    from coordinator.toolsets.items.rules.times.due import moment
    from coordinator.toolsets.items.rules.times.instants import instant
    from coordinator.toolsets.items.rules.times.recurrence import recurrence, stored as stored_recurrence
    from coordinator.toolsets.items.rules.usage.budgets import shown_limits
    from coordinator.toolsets.items.rules.usage.shares import Share, budget_of_agent, share_of, shares_of
    from coordinator.toolsets.items.rules.usage.sums import MOST, NONE, Sum, plus, sum_of
    from coordinator.toolsets.items.rules.values import TAG, TAG_SYNTAX
    from coordinator.toolsets.items.store.agents.drains import begin_drain, drain_name, end_drain
    from coordinator.toolsets.items.store.agents.presence import Agent, AgentList, Agents, list_agents, read_agents
    from coordinator.toolsets.items.store.agents.presence import read_agents_named
    from coordinator.toolsets.items.store.agents.questions import AnsweredQuestion, OpenQuestion, answered_questions
    from coordinator.toolsets.items.store.agents.questions import count_questions, open_questions
    from coordinator.toolsets.items.store.agents.tokens import TokenStore
    from coordinator.toolsets.items.store.base import Changed, LIBRARY, SETTLE
    from coordinator.toolsets.items.store.boards.claim_lists import ClaimList, Claims, HeldBackList, LiveClaim
    from coordinator.toolsets.items.store.boards.claim_lists import read_claims, read_held_back
    from coordinator.toolsets.items.store.boards.rows import ItemRow, STATES, rows_by_ids
    from coordinator.toolsets.items.store.boards.tree_graph import Below, MAX_NODES, MAX_SIDE, Neighbourhood
    from coordinator.toolsets.items.store.boards.tree_graph import Node as TreeNode, TreeGraph, read_neighbourhood
    from coordinator.toolsets.items.store.boards.tree_graph import read_tree
    from coordinator.toolsets.items.store.boards.windows import BoardPage, board_page, recent_page
    from coordinator.toolsets.items.store.dependencies import DependencyStore, NewEdge
    from coordinator.toolsets.items.store.end_claim import ClaimEnder
    from coordinator.toolsets.items.store.held_counts import count_held_back
    from coordinator.toolsets.items.store.history import read_history
    from coordinator.toolsets.items.store.measures.items import PROJECTS, read_abandoned
    from coordinator.toolsets.items.store.measures.project_state import ProjectState, read_project_state
    from coordinator.toolsets.items.store.measures.samples import DAY_ROWS, DAY_STEP, HOUR_ROWS, HOUR_STEP, Sample
    from coordinator.toolsets.items.store.measures.samples import Samples, filled, read_samples
    from coordinator.toolsets.items.store.obstacles import FREE, Obstacle, read_obstacles
    from coordinator.toolsets.items.store.resources import ResourceRow, Use, read_resources
    from coordinator.toolsets.items.store.pauses import pause_claims, resume_claims
    from coordinator.toolsets.items.store.restore import RestoreStore, RestoredItem, RestoredNote
    from coordinator.toolsets.items.store.trees import descendants
    from coordinator.toolsets.items.store.usage import GROUPS, UsageReport, UsageRow, agent_sums, last_days, read_usage
    from coordinator.toolsets.items.store.usage import stored_sum, usage_entries
    from coordinator.toolsets.items.tools.agents import agent_entry, agents_result
else:
    __getattr__ = names_of(__name__, __file__)
