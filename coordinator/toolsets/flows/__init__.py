"""Workflows of steps: graphs that workers execute exactly as recorded (README.md).

A flow is checked once, when it is created (``rules/check.py``). After that no step can be stranded or run twice,
whatever the results are, because every accepted graph consists of sequences, choices and forks that join
(``rules/graph.py`` has the argument). The successors of a step are a pure function of the flow and the step's outcome
(``rules/planner.py``). The worker calls it with the outcome. Then one script records the outcome, counts joins, creates
the next steps and hands them to the queue; or it rejects all of that, because the attempt is stale
(``coordinator.steps``). So a process that dies leaves nothing half done.

``contract`` has the arguments and results, ``rules`` everything without I/O, ``store`` the typed calls of the scripts
in ``lua``, ``run_kind`` the part of this toolset that workers use, ``tools`` the five tools.
"""

from typing import TYPE_CHECKING

from coordinator.toolsets.face import names_of

if TYPE_CHECKING:
    from coordinator.toolsets.flows.contract.base import FlowStatus, MAX_ID, WORKFLOW_STATUSES
    from coordinator.toolsets.flows.rules.check import check_flow
    from coordinator.toolsets.flows.rules.outline import Line, outline
    from coordinator.toolsets.flows.rules.permissions import administers, may_approve
    from coordinator.toolsets.flows.rules.problems import place
    from coordinator.toolsets.flows.rules.spec import Flow, Step, as_given, unpack
    from coordinator.toolsets.flows.store.flows import FlowList, FlowReads, FlowRecord, FlowRow, FlowStore, StepRecord
    from coordinator.toolsets.flows.store.gates import MOST as MOST_GATES, ReleasedGate, WaitingGate, flows_at_gates
    from coordinator.toolsets.flows.store.gates import gates_of, released_gates, waiting_gates
    from coordinator.toolsets.flows.store.progress import FlowEvent, Progress, list_visible, read_events, read_progress
else:
    __getattr__ = names_of(__name__, __file__)
