"""The gateway: any number of capabilities and state-machine workflows behind seven tools (README.md).

**Terms.** An *instance* is one run of a workflow. An *operation* is what one start, submit or timeout does to it. It
consists of *hops*: moves from state to state. Hops after the first are automatic.

**A submit takes effect once.** ``lua/instances/begin_transition.lua`` compares the version and marks the instance with
the token of a new operation, or rejects it. Until that operation is over, no other can begin. A pure function
(``rules/planner.py``) takes the definition, the instance and the outcome of the last executor, and returns the next
executor, or what to commit. A front-end calls it at the beginning, and a worker after each executor. A script
writes the result: context, state, version, evidence, approvals and audit, all at once or not at all, under the fence of
the attempt and the token of the operation. So if a process dies, the instance is as it was before the hop or after it,
and the step engine (``coordinator.steps``) continues the operation with the same idempotency key.

**An instance keeps its definitions.** It has the hash of the definitions that it started with. Their text is kept in
Redis as long as an instance needs it (``rules/bundle.py``).

``contract`` has the arguments and results, ``rules`` everything without I/O, ``store`` the typed calls of the scripts
in ``lua``, ``run_kind`` the part of this toolset that workers use, ``tools`` the seven tools. ``operations`` starts and
advances instances for all of them: it reads an instance (``snapshot``), plans from it, and waits with ``listener`` for
the end of the operation. ``durations`` remembers which calls are quick.
"""

from typing import TYPE_CHECKING

from coordinator.toolsets.face import names_of

if TYPE_CHECKING:
    from coordinator.toolsets.gateway.approval_metrics import ApprovalMetrics
    from coordinator.toolsets.gateway.decisions import AnswerChoice, Decisions, Evidence, OpenApproval, evidence_of
    from coordinator.toolsets.gateway.listener import Listener
    from coordinator.toolsets.gateway.rules.catalogue import Catalogue, LeftOut, Servers
    from coordinator.toolsets.gateway.rules.checks import Rejected
    from coordinator.toolsets.gateway.rules.graph import Level, targets
    from coordinator.toolsets.gateway.rules.guards import HUMAN, Principal
    from coordinator.toolsets.gateway.rules.lint import problems
    from coordinator.toolsets.gateway.rules.resolve import all_connections
    from coordinator.toolsets.gateway.snapshot import Snapshot
    from coordinator.toolsets.gateway.store.audit import Answered, AuditEntry, AuditStore, ListedApproval, OwnEntries
    from coordinator.toolsets.gateway.store.audit import PendingApproval
    from coordinator.toolsets.gateway.store.instances import Instance
    from coordinator.toolsets.gateway.store.listing import InstanceRow, count_instances, list_instances
    from coordinator.toolsets.gateway.store.servers import ServerStore
else:
    __getattr__ = names_of(__name__, __file__)
