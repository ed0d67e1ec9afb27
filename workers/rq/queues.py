"""The RQ queues in which steps wait, and the jobs in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redis import Redis
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer

from coordinator.steps.handoff import QUEUE
from workers.steps import STEPS


class StepNotAllowed(Exception):
    """A job names a function that is not in ``workers.steps``."""


class StepJob(Job):
    """A job whose function must be one of ``workers.steps``. RQ's own class would import anything.

    Everything else that RQ does for a job is left out: it would call any function as a callback, and any URL as a
    webhook.
    """

    @property
    def func(self) -> Callable[..., Any]:
        """The function to run.

        Raises:
            StepNotAllowed: the job names another function; it fails with this error.
        """
        step = STEPS.get(self.func_name or "")
        if step is None or self.instance is not None:
            raise StepNotAllowed(f"{self.func_name!r} is not a step; allowed: {', '.join(sorted(STEPS))}")
        return step

    def restore(self, raw_data: Any) -> None:
        super().restore(raw_data)
        self._success_callback_name = self._failure_callback_name = self._stopped_callback_name = None
        self.webhooks = []


def step_queue(connection: Redis, name: str = QUEUE) -> Queue:
    """Opens one of the queues, to add jobs to it or to take jobs from it."""
    return Queue(name, connection=connection, job_class=StepJob, serializer=JSONSerializer)
