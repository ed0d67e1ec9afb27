"""The tools against a model: any sequence of calls gets the model's answers.

Deeper: ``MODEL_EXAMPLES=2000 pytest tests/items/test_model.py``.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.items.machine import (
    Session,
)
from tests.items.note_machine import EXAMPLES, NotedTools


@pytest.mark.timeout(400 + EXAMPLES)  # a failure is shrunk for up to five minutes
def test_any_sequence_of_calls_follows_the_model(redis_url: str) -> None:
    session = Session(redis_url)
    NotedTools.session = session
    try:
        run_state_machine_as_test(
            NotedTools,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=40,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        session.close()
