"""The tools of the gateway toolset: each joins the contract, the rules and the store."""

from __future__ import annotations

from coordinator.toolsets.gateway.contract.examples import EXAMPLES
from coordinator.toolsets.gateway.tools import discovery, workflow
from coordinator.toolsets.gateway.tools.backend import Backend
from coordinator.toolsets.gateway.tools.documents import documents
from coordinator.toolsets.tool import Services, Toolset

INSTRUCTIONS = (
    "A gateway to capabilities and workflows. gateway.home and gateway.search show what there is, "
    "gateway.describe the input that something takes, workflow.start starts it. Every answer has links to "
    "what makes sense next, with the arguments filled in: follow them. A workflow is advanced with workflow.submit, "
    "which names the version that was seen; after STALE_WORKFLOW_VERSION, or a lost answer, call workflow.get."
)

ORDER = (
    "gateway.home",
    "gateway.search",
    "gateway.describe",
    "workflow.start",
    "workflow.get",
    "workflow.submit",
    "workflow.explain",
)
"""The tools in the order in which they are listed."""


def toolset(services: Services) -> Toolset:
    backend = Backend(services)
    by_name = {tool.name: tool for tool in (*discovery.tools(backend), *workflow.tools(backend))}
    return Toolset(
        "gateway",
        "Gateway",
        INSTRUCTIONS,
        tuple(by_name[name] for name in ORDER),
        service=backend,
        examples=EXAMPLES,
        offers=lambda: backend.catalogue,
        documents=documents(by_name["gateway.home"], by_name["workflow.get"]),
    )
