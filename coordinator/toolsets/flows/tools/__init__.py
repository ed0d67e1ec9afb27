"""The tools of the flows toolset: each joins the contract, the rules and the store."""

from __future__ import annotations

from coordinator.service import ServiceGroup
from coordinator.steps.names import StepNames
from coordinator.toolsets.flows.contract.examples import EXAMPLES
from coordinator.toolsets.flows.store.flows import FlowStore
from coordinator.toolsets.flows.tools import changes, create, reads
from coordinator.toolsets.flows.tools.documents import documents
from coordinator.toolsets.tool import Services, Toolset
from coordinator.toolsets.waiting.reads import WaitingReads

INSTRUCTIONS = (
    "Workflows of steps that run in the background: workflow_create returns an id, workflow_get shows how "
    "far it is; with waitMs 50000 and waitFor ended or attention it waits: repeat it while waited.met is false. If it "
    "completed, read the steps' result_json; if it failed, reason and the last step's result_json. A step with tool "
    "null and status running is an approval gate: have a human review, then call workflow_step_ready with its id. "
    "Give every mutating call a fresh UUID as requestId; after a lost answer repeat it with the same one."
)


def toolset(services: Services, names: StepNames) -> Toolset:
    """The flows toolset over one process's services.

    Args:
        names: the tools that steps may name.
    """
    flows = FlowStore(services.store, services.settings)
    waiting = WaitingReads(services)
    reading = reads.tools(flows, waiting)
    return Toolset(
        "flows",
        "Workflows",
        INSTRUCTIONS,
        (*create.tools(flows, names, services), *reading, *changes.tools(flows, services)),
        service=ServiceGroup(names, waiting),
        examples=EXAMPLES,
        documents=documents(*reading),
        completes={"flow": reads.completion(flows)},
    )
