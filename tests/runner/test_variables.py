"""The variables that the runner sets are known to every ``fleet`` command that is started below it."""

from __future__ import annotations

import re
from pathlib import Path

import coordinator.runner
from coordinator.settings import INTERNAL_ENVIRONMENT, Settings
from coordinator.settings.fields import fields_of


def test_commands_below_a_runner_know_its_variables() -> None:
    folder = Path(coordinator.runner.__file__).parent
    named = {name for file in folder.rglob("*.py") for name in re.findall(r'"(FLEET_[A-Z_]+)"', file.read_text())}
    assert "FLEET_ITEM_ID" in named
    assert named <= {*INTERNAL_ENVIRONMENT, *(field.environment for field in fields_of(Settings))}
