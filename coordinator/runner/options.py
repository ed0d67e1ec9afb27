"""What a runner is told: the options of ``fleet run``, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.runner.presets import SCRIPT, Preset
from coordinator.runner.reports.usage import COUNTED, Most
from coordinator.runner.supervision.processes import Grace

_PLACE = re.compile(r"\{(prompt_file|workspace|result_file|mcp_config|item\.[a-zA-Z_]+)\}")
PLACES = ("prompt_file", "workspace", "result_file", "mcp_config", "item.id")
"""What arguments of the command can have in braces. Of the item only its id: its texts are data of other people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which items are taken; absent filters take all."""

    tags: str | None = None
    type: str | None = None
    priority: str | None = None
    parent: str | None = None
    ancestor: str | None = None
    capabilities: tuple[str, ...] | None = None
    until_tree: str | None = None
    """An item: the runner ends when nothing below it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything about a runner but where the fleet is."""

    command: tuple[str, ...]
    state: Path
    """The directory for logs of attempts."""
    preset: Preset = SCRIPT
    selection: Selection = field(default_factory=Selection)
    slots: int = 1
    ttl: int = 900
    timeout: float = 7200.0
    """0: never, as with the next."""
    stall: float = 900.0
    """0: never."""
    verify: tuple[str, ...] = ()
    """A command that must succeed in the workspace before the item is done."""
    allow_denials: bool = False
    require_changes: bool = False
    yolo: bool = False
    mcp: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    """The runner's own, of which little is passed on."""
    passed: tuple[str, ...] = ()
    """Names of further variables that are passed on."""
    instructions: str = ""
    max_items: int = 0
    max_cost: float = 0.0
    max_time: float = 0.0
    """Seconds; 0: no limit, as with the other two."""
    usage_per_attempt: Most = COUNTED
    """What is counted of what the command says that it has used."""
    drain: float = 30.0
    """How long a stop waits for commands before it ends them."""

    @property
    def grace(self) -> Grace:
        """From SIGINT to SIGTERM to SIGKILL; short enough that a lost claim's command is dead before the claim ends."""
        return min(10.0, self.ttl / 10), min(5.0, self.ttl / 20)

    @property
    def orphaned(self) -> Grace:
        """The same for when the runner has died, after which nobody renews the claim."""
        return 0.0, min(2.0, self.ttl / 20)

    @property
    def silence(self) -> float:
        """How long the runner may be frozen before its commands are ended: its claims are not renewed meanwhile."""
        return self.ttl * 0.6


def unknown_place(command: tuple[str, ...]) -> str | None:
    """The first word in braces that looks like one of ours and is none."""
    for word in command:
        for match in _PLACE.finditer(word):
            if match[1] not in PLACES:
                return match[0]
    return None


def filled(command: tuple[str, ...] | list[str], values: Mapping[str, str]) -> list[str]:
    """The command with what stands in braces filled in; other braces stay."""
    return [_PLACE.sub(lambda match: values.get(match[1], match[0]), word) for word in command]
