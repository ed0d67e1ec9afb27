"""Shows long steps to RQ's tools, as jobs that the worker executes.

Most steps are too short for RQ's registries and never become a job. A step that lasts longer
than one heartbeat is shown from then on. So dashboards show what a worker is doing, and
``rq`` can stop it. The entries expire by themselves if the worker is killed.
"""

from __future__ import annotations

from time import monotonic
from typing import Any

from rq import Queue
from rq.executions import Execution
from rq.job import Job

from coordinator.steps.times import RENEW_SECONDS
from workers.attempts import StepAttempt

TTL_SECONDS = 60


class Display:
    """What RQ sees of one worker's steps.

    Args:
        queue: the queue whose registry lists them.
    """

    def __init__(self, worker: str, queue: Queue) -> None:
        self._worker = worker
        self._queue = queue
        self._shown: dict[str, tuple[Job, Execution]] = {}

    def update(self, pipeline: Any, attempts: list[StepAttempt]) -> None:
        """Adds the commands to a pipeline that show exactly the long ones of these attempts."""
        since = monotonic() - RENEW_SECONDS
        lasting = {attempt.step.job_id: attempt for attempt in attempts if attempt.began < since}
        for gone in self._shown.keys() - lasting.keys():
            self._hide(pipeline, *self._shown.pop(gone))
        for job_id, attempt in lasting.items():
            if job_id in self._shown:
                job, execution = self._shown[job_id]
                execution.heartbeat(job.started_job_registry, TTL_SECONDS, pipeline=pipeline)
            else:
                job, execution = self._shown[job_id] = self._show(pipeline, attempt)
            pipeline.expire(job.key, TTL_SECONDS)

    def clear(self) -> None:
        with self._queue.connection.pipeline(transaction=False) as pipeline:
            self.update(pipeline, [])
            pipeline.execute()

    def _show(self, pipeline: Any, attempt: StepAttempt) -> tuple[Job, Execution]:
        step = attempt.step
        job = Job.create(
            "workers.steps.run",
            args=[step.project, step.run, step.step, step.attempt],
            connection=self._queue.connection,
            id=step.job_id,
            origin=self._queue.name,
            description=f"step {step.key} of {step.name}"[:200],
            timeout=-1,
            result_ttl=0,
            failure_ttl=TTL_SECONDS,
            serializer=self._queue.serializer,
        )
        job.save(pipeline=pipeline)
        job.prepare_for_execution(self._worker, pipeline=pipeline)
        return job, Execution.create(job, TTL_SECONDS, pipeline=pipeline, worker_name=self._worker)

    @staticmethod
    def _hide(pipeline: Any, job: Job, execution: Execution) -> None:
        execution.delete(job, pipeline=pipeline)
        pipeline.delete(job.key)
