"""The tools of the navigator toolset: each joins the contract, the rules and the definitions."""

from __future__ import annotations

from coordinator.definitions import Definitions, shared_definitions
from coordinator.service import Functions
from coordinator.store.signing_keys import SigningKeys
from coordinator.toolsets.navigator.contract.examples import EXAMPLES
from coordinator.toolsets.navigator.tools import catalogue, navigation
from coordinator.toolsets.navigator.tools.shared import Documents
from coordinator.toolsets.tool import Services, Toolset, starting_with

INSTRUCTIONS = (
    "Workflows that the server leads you through. Begin with get_activities, or with list_workflows and nav_start. "
    "Every navigation answer shows position, availableActions, the open checkpoint and a state: do what is required, "
    "report it with nav_action, and hand back the newest state exactly as it was, until completed is true. What is "
    "blocked by variables waits for you to report them. Questions of checkpoints are for the user; nothing goes on "
    "before they are answered."
)


def toolset(services: Services, definitions: Definitions | None = None) -> Toolset:
    """The navigator toolset over one process's services; without ``definitions``, those of the settings."""
    settings = services.settings
    source = definitions or shared_definitions(settings.workflows.navigator)
    secrets = SigningKeys(services.store, settings.signing.keys, settings.signing.key_days)
    return Toolset(
        "navigator",
        "Workflow navigation",
        INSTRUCTIONS,
        (*navigation.tools(source, secrets), *catalogue.tools(Documents(source))),
        service=Functions(start=source.start),
        examples=EXAMPLES,
        completes={"procedure": starting_with(lambda: navigation.independent(source.current))},
        offers=lambda: source.newest,
    )
