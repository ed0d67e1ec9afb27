"""The example configurations of a roll-out are valid, and do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator import cli
from coordinator.settings import load_settings
from tests.support.fleets import ROOT

ROLLOUT = ROOT / "config" / "rollout"
STAGES = {
    "1-off.yaml": ("accept-cached", "noop", False),
    "2-self-reported.yaml": ("accept-self-reported", "noop", True),
    "3-verifier-with-fallback.yaml": ("accept-cached", "jwks", True),
    "4-reject.yaml": ("reject", "jwks", True),
}


def test_there_is_one_for_each_stage() -> None:
    assert sorted(file.name for file in ROLLOUT.glob("*.yaml")) == sorted(STAGES)


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_is_valid_and_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    policy, verifier, enabled = STAGES[name]
    assert cli.run(["config", "check", str(ROLLOUT / name)]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert f"  policy {policy}: " in told.out
    assert ("proofs are JWTs of https://id.example.com for fleet" in told.out) is (verifier == "jwks")
    assert ("required: advance_item" in told.out) is enabled
    section = load_settings({}, {}, ROLLOUT / name).settings.actor_authentication
    assert (section.policy, section.verifier.type, section.enabled) == (policy, verifier, enabled)


@pytest.mark.parametrize("name", STAGES)
def test_commented_out_settings_of_a_stage_are_valid_too(name: str, tmp_path: Path) -> None:
    """Uncomments each commented-out setting, in place of its alternative."""
    text = (ROLLOUT / name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("    # jwks_")]
    for line in lines:
        changed = tmp_path / name
        changed.write_text(text.replace(line, line.replace("# ", "", 1)), encoding="utf-8")
        load_settings({}, {}, changed)
    other = text.partition("instead of the sources above.\n#\n")[2]
    if other:
        uncommented = "\n".join(line.removeprefix("# ").removeprefix("#") for line in other.splitlines())
        changed = tmp_path / "other.yaml"
        changed.write_text(f"actor_authentication:\n{uncommented}\n", encoding="utf-8")
        assert load_settings({}, {}, changed).settings.actor_authentication.verifier.did_allowlist
    assert lines or other or name[0] in "12"
