"""The sections ``resources`` and ``budgets``: what they refuse, by the name of what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.settings import SettingsError, load_settings
from coordinator.settings.sections.resources import Limit

WRONG = [
    ("resources: {gpu: 0}", "resources.gpu must be an integer from 1 to 1000000 or a mapping, not 0"),
    ("resources: {gpu: true}", "resources.gpu must be an integer"),
    ("resources: {a//b: 1}", "a name in resources must be a path of at most 8 names"),
    (
        "resources: {gpu: {perMinut: 3}}",
        "unknown key 'resources.gpu.perMinut'; did you mean 'resources.gpu.perMinute'?",
    ),
    ("resources: {gpu: {perMinute: 0}}", "resources.gpu.perMinute must be an integer from 1 to 1000000 or null, not 0"),
    ("resources: {gpu: {capacity: x}}", "resources.gpu.capacity must be an integer from 1 to 1000000, not 'x'"),
    ("traits: {t: {resources: [{key: gpu, units: 2}]}}", "traits.t.resources.0.units: the item demands 2 units of gpu"),
    ("budgets: {agents: {a*b: {day: {tokens: 1}}}}", "a name in budgets.agents must be the id of an agent"),
    ("budgets: {agents: {a: {}}}", "budgets.agents.a: needs at least one of day and total"),
    ("budgets: {agents: {a: {week: {tokens: 1}}}}", "unknown key 'budgets.agents.a.week'; known: day, total"),
    ("budgets: {projects: {p: {day: {tokens: 0}}}}", "budgets.projects.p.day.tokens must be an integer from 1"),
    ("budgets: {people: {}}", "unknown key 'budgets.people'; known: agents, projects"),
    ("rank: soon", "rank must be one of complexity, due, not 'soon'"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as refused:
        load_settings({}, {}, file)
    assert said in str(refused.value)


def test_a_limit_has_a_short_and_a_long_form(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("resources: {gpu: 2, model: {capacity: 5, perMinute: 60}, one: {perMinute: 3}}")
    assert load_settings({}, {}, file).settings.resources == {
        "gpu": 2,
        "model": Limit(capacity=5, per_minute=60),
        "one": Limit(per_minute=3),
    }
