"""The rules of alerts, as Prometheus reads them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RULES = DEPLOY / "prometheus"
FILES = ("recording.yml", "alerts.yml")


@cache
def rules() -> list[dict[str, Any]]:
    groups = [group for file in FILES for group in YAML(typ="safe").load(RULES / file)["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}
