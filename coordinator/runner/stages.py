"""Takes one attempt through its stages: workspace, prompt, command, commit, verification."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from coordinator.runner.environment import environment_of
from coordinator.runner.logs import AttemptLog
from coordinator.runner.masking import Masker, secrets_of
from coordinator.runner.options import Options, filled
from coordinator.runner.outcomes import STOPPING, Kind, Outcome, Stop, judge
from coordinator.runner.prompt import prompt_of
from coordinator.runner.protocols import Job, Reading, Usage, Workspace, WorkspaceFailed, Workspaces
from coordinator.runner.readers import PlainReader
from coordinator.runner.records import RunRecord, write_private
from coordinator.runner.reports.usage import Sum, total_of
from coordinator.runner.result_file import BadResult, ResultFile, read_result
from coordinator.runner.supervision import processes
from coordinator.runner.supervision.processes import Ended, Supervised
from coordinator.runner.watch import watch


@dataclass(frozen=True, slots=True)
class Access:
    """What the command is told of the fleet."""

    url: str
    project: str
    agent: str
    secrets: tuple[str, ...] = ()
    """What is masked besides the secrets in its environment: the runner's own token."""
    mcp: Mapping[str, str] | None = None
    """Headers by which /mcp/worker knows the command, secrets; None: it gets no entry for MCP."""
    at: str = ""
    """The one of several URLs that answers: a server entry has one."""


@dataclass(slots=True)
class AttemptReport:
    """What is known of an attempt when it is over."""

    outcome: Outcome
    result: Any = None
    summary: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    used: Sum = field(default_factory=dict)
    """Tokens, cost and time, as the fleet takes them."""
    note: dict[str, Any] = field(default_factory=dict)
    """The body of the note ``run-<label>``."""


class AttemptRun:
    """One attempt; ``say`` is told what happens, in short phrases."""

    def __init__(
        self,
        job: Job,
        record: RunRecord,
        options: Options,
        access: Access,
        workspaces: Workspaces,
        say: Callable[[str], None],
    ) -> None:
        self._job = job
        self._record = record
        self._options = options
        self._access = access
        self._workspaces = workspaces
        self._say = say
        self._stop: Stop = ""
        self._killed = False
        self._spent = ""
        """Which budget is spent."""
        self._run: Supervised | None = None
        self._reader = options.preset.reader()
        self._workspace: Workspace | None = None
        self._opening: asyncio.Task[Workspace] | None = None
        self._committing: asyncio.Task[str | None] | None = None
        """Steps that run commands of the operator and of the repository, which may take long."""
        self._began = time.time()
        self._ended = Ended(0)
        self._result: ResultFile | None = None
        self._commit: str | None = None
        preset = options.preset
        entry: tuple[tuple[str, ...], dict[str, str]] = ((), {})
        mcp_file = record.attempt.directory / "mcp.json"
        if access.mcp is not None:
            entry = preset.mcp(mcp_file, f"{access.at or access.url}/p/{access.project}/mcp/worker", access.mcp)
        self._places = {
            "prompt_file": str(record.attempt.directory / "prompt.md"),
            "result_file": str(record.result_file),
            "mcp_config": str(mcp_file),
            "item.id": record.attempt.item_id,
        }
        facts = {
            "FLEET_URL": access.url,
            "FLEET_PROJECT": access.project,
            "FLEET_ITEM_ID": record.attempt.item_id,
            "FLEET_RESULT_FILE": str(record.result_file),
            "FLEET_RUN": record.attempt.run_id,
        }
        if access.mcp is not None:
            facts["FLEET_MCP_CONFIG"] = str(mcp_file)
        environment = environment_of(
            options.environment,
            access.agent,
            (*preset.passed, *options.passed),
            {**preset.variables, **entry[1], **facts},
        )
        tokens = (value.removeprefix("Bearer ") for value in (access.mcp or {}).values() if value.startswith("Bearer "))
        secrets = secrets_of(options.environment) | secrets_of(environment) | {*access.secrets, *tokens}
        self._masker = Masker(secrets)
        self._attempt = replace(record.attempt, environment=environment)
        self._command = [*preset.command(options.command, yolo=options.yolo), *entry[0]]

    def stop(self, why: Stop) -> None:
        """Ends the command early; what comes of the attempt follows from why."""
        self._stop = self._stop or why
        if self._opening is not None:
            self._opening.cancel()
        if self._run is not None:
            self._run.stop()

    def spent(self, why: str) -> None:
        self._spent = why
        self._say(f"is ended: {why}")
        self.stop("spent")

    def kill(self) -> None:
        """Ends the command at once. What it has left is not committed: where it is in a worktree, that is kept."""
        self._stop, self._killed = self._stop or "drain", True
        for task in (self._opening, self._committing):
            if task is not None:
                task.cancel()
        if self._run is not None:
            self._run.kill()

    async def run(self) -> AttemptReport:
        """Runs the attempt. When it returns or raises, nothing of the command is left.

        Raises:
            asyncio.CancelledError: it was cancelled, as when the claim is lost; the command is ended, and the workspace
                is kept where anything could be lost.
        """
        outcome, result = Outcome("lost", "the claim was lost"), None
        self._write({"outcome": "running"})
        try:
            outcome, result = await self._stages()
            self._result = result
            if outcome.kind == "later" and self._stop == "spent":
                outcome = replace(outcome, reason=self._spent)
            outcome = replace(outcome, reason=self._masker.text(outcome.reason))
        finally:
            self._write({**self._facts(outcome), "usage": self.used()})
        reading = self._reader.reading()
        text = reading.text if self._options.preset.speaks and reading.text.strip() else None
        return AttemptReport(
            outcome,
            result=text if result is None or result.result is None else self._masked(result.result),
            summary="" if result is None else self._masker.text(result.summary),
            notes={} if result is None else {key: self._masker.text(body) for key, body in result.notes.items()},
            used=self.used(),
            note=self._facts(outcome, result),
        )

    @property
    def cost(self) -> float | None:
        """Dollars, as far as the command has said so, and as they are counted."""
        said = self._usage(self._result).cost_usd
        return None if said is None else min(said, self._options.usage_per_attempt.cost_micro_usd / 1e6)

    def used(self) -> Sum:
        return total_of(self._usage(self._result), time.time() - self._began)

    def facts(self) -> dict[str, Any]:
        """What its note says while it runs."""
        return {**self._facts(Outcome("lost", "")), "outcome": "running"}

    async def close(self, done: bool) -> str:
        """Ends the workspace, after the item was told of the outcome; returns what became of it."""
        # Its token ends with the claim, but there is no need to keep it.
        with contextlib.suppress(OSError):
            os.unlink(self._places["mcp_config"])
        workspace, self._workspace = self._workspace, None
        return "" if workspace is None else await workspace.close(done=done)

    async def _stages(self) -> tuple[Outcome, ResultFile | None]:
        options, attempt = self._options, self._attempt
        if self._killed:
            return Outcome("later", STOPPING), None
        try:
            self._opening = asyncio.create_task(self._workspaces.open(attempt))
            self._workspace = workspace = await self._opening
        except WorkspaceFailed as error:
            return _of_workspace(error, "no workspace"), None
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return Outcome("later", STOPPING), None
        self._places["workspace"] = str(workspace.path)
        self._attempt = attempt = replace(
            attempt, environment={**attempt.environment, "FLEET_WORKSPACE": str(workspace.path)}
        )
        ready = time.time()
        prompt = Path(self._places["prompt_file"])
        try:
            await asyncio.to_thread(write_private, prompt, self._prompt())
            log = AttemptLog(attempt.directory, self._masker, self._reader)
        except OSError as error:  # the disk has become full, or somebody has deleted the directory
            return Outcome("later", f"logs cannot be kept: {error.strerror}", pauses=True), None
        outcome, result = await self._run_command(workspace, prompt, log)
        if outcome.kind != "lost":
            outcome = await self._keep(workspace, outcome)
        if outcome.kind == "done" and (options.require_changes or options.preset.requires_changes):
            changed = await asyncio.to_thread(workspace.changed, ready)
            outcome = outcome if changed else Outcome("failed", "it changed nothing")
        if outcome.kind == "done" and options.verify:
            outcome = await self._verify(workspace)
        return outcome, result

    async def _keep(self, workspace: Workspace, outcome: Outcome) -> Outcome:
        """Commits what the command has left, whatever came of it: uncommitted work is what gets lost."""
        if self._killed:
            return Outcome("later", STOPPING)
        try:
            self._committing = asyncio.create_task(workspace.commit())
            self._commit = await self._committing
            for remark in workspace.remarks:
                self._say(remark)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return Outcome("later", STOPPING)
        except WorkspaceFailed as error:
            if outcome.kind == "done":
                return _of_workspace(error, "the work could not be committed")
        return outcome

    async def _run_command(
        self, workspace: Workspace, prompt: Path, log: AttemptLog
    ) -> tuple[Outcome, ResultFile | None]:
        options, preset = self._options, self._options.preset
        try:
            self._ended = await self._supervised(
                filled(self._command, self._places), workspace, log, prompt if preset.prompt_on_stdin else None
            )
        except OSError as error:
            return Outcome("later", f"no process can be started: {error.strerror}"), None
        finally:
            if problem := log.close():
                self._say(problem)
        result, wrong = None, ""
        try:
            result = await asyncio.to_thread(read_result, self._record.result_file)
        except BadResult as error:
            wrong = str(error)
        outcome = judge(
            self._ended,
            self._stop,
            self._reader.reading(),
            result,
            exit_codes=preset.exit_codes,
            speaks=preset.speaks,
            allow_denials=options.allow_denials,
            last_words=log.last_words(),
        )
        if wrong and outcome.kind == "done":
            outcome = Outcome("failed", wrong)
        return outcome, result

    async def _supervised(
        self, command: list[str], workspace: Workspace, log: AttemptLog, source: Path | None
    ) -> Ended:
        """Runs a command to its end, also if this task is cancelled meanwhile."""
        options = self._options
        run = await processes.start(
            command,
            run_id=self._attempt.run_id,
            environment=self._attempt.environment,
            directory=workspace.path,
            sink=log.take,
            source=source,
            grace=options.grace,
            orphaned=options.orphaned,
            silence=options.silence,
        )
        self._run = run
        run.changed = lambda: self._say(f"cannot be killed: {' '.join(map(str, run.alive))}") if run.alive else None
        if self._killed:
            run.kill()
        elif self._stop:
            run.stop()
        # By a timer of its own, because a look at a large workspace takes long.
        over = asyncio.get_running_loop().call_later(options.timeout or math.inf, self._time_is_over, run)
        watching = asyncio.create_task(watch(run, log, self._reader, workspace, options, self.stop, self._say))
        cancelled = 0
        ended: Ended | None = None
        try:
            while ended is None:
                try:
                    ended = await run.wait()
                except asyncio.CancelledError:
                    cancelled += 1
                    self._stop = self._stop or "lost"
                    run.stop() if cancelled == 1 else run.kill()
        finally:
            self._run = None
            over.cancel()
            watching.cancel()
            await asyncio.wait((watching,))  # ends with a cancellation of this task, which suppressing would lose
        if not watching.cancelled():
            watching.result()
        if cancelled:
            raise asyncio.CancelledError
        return ended

    def _time_is_over(self, run: Supervised) -> None:
        if not run.leader_ended.is_set():
            self.stop("timeout")

    async def _verify(self, workspace: Workspace) -> Outcome:
        directory, reader = self._attempt.directory / "verify", PlainReader()
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            log = AttemptLog(directory, self._masker, reader)
        except OSError as error:
            return Outcome("later", f"logs cannot be kept: {error.strerror}", pauses=True)
        agent, self._reader = self._reader, reader
        self._say("verifying")
        try:
            ended = await self._supervised(filled(self._options.verify, self._places), workspace, log, None)
        except OSError as error:
            return Outcome("later", f"no process can be started: {error.strerror}")
        finally:
            self._reader = agent
            log.close()
        outcome = judge(ended, self._stop, Reading(), None, exit_codes={}, last_words=log.last_words())
        if outcome.kind in ("done", "later", "broken"):
            return outcome
        return Outcome("failed", f"verification failed: {outcome.reason}")

    def _prompt(self) -> str:
        job = self._job
        return prompt_of(
            job.item,
            job.notes,
            job.results,
            attempt=self._attempt.number,
            takeover=job.takeover,
            result_file=self._places["result_file"],
            instructions=self._options.instructions,
            answers=self._options.preset.speaks,
            mcp=self._access.mcp is not None,
        )

    def _masked(self, result: Any) -> Any:
        return msgspec.json.decode(self._masker(msgspec.json.encode(result)))

    def _usage(self, result: ResultFile | None) -> Usage:
        read = self._reader.reading().usage
        if result is None or result.usage is None:
            return read
        return replace(read, **result.usage.given())

    def _facts(self, outcome: Outcome, result: ResultFile | None = None) -> dict[str, Any]:
        reading, ended = self._reader.reading(), self._ended
        usage = self._usage(result)
        facts = {
            "attempt": self._attempt.number,
            "outcome": outcome.kind,
            "reason": outcome.reason,
            "seconds": round(time.time() - self._began, 1),
            "cpuSeconds": round(ended.cpu_seconds, 1),
            "memoryBytes": ended.memory_bytes,
            "commit": self._commit,
            "remarks": "; ".join(self._workspace.remarks) if self._workspace else "",
            "session": reading.session,
            "model": usage.model,
            "turns": usage.turns,
            "inputTokens": usage.input_tokens,
            "cachedInputTokens": usage.cached_input_tokens,
            "outputTokens": usage.output_tokens,
            "host": socket.gethostname(),
            "log": str(self._attempt.directory),
        }
        facts = {name: value for name, value in facts.items() if value not in (None, "", 0)}
        return {**facts, "exitCode": ended.code if ended.seconds else None, "costUsd": usage.cost_usd}

    def _write(self, facts: Mapping[str, Any]) -> None:
        attempt = self._attempt
        with contextlib.suppress(OSError):  # the disk is full: the attempt goes on
            self._record.write(
                {
                    "item": attempt.item_id,
                    "title": attempt.title,
                    "run": attempt.run_id,
                    "url": self._access.url,
                    "project": self._access.project,
                    "agent": self._access.agent,
                    "runner": os.getpid(),
                    "label": attempt.label,
                    "preset": self._options.preset.name,
                    "command": self._masker.text(" ".join(self._command)),
                    "started": datetime.fromtimestamp(self._began, UTC).isoformat(timespec="seconds"),
                    **facts,
                }
            )


def _is_cancelled() -> bool:
    """Whether this task is cancelled itself, and not only one that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _of_workspace(error: WorkspaceFailed, what: str) -> Outcome:
    kind: Kind = "broken" if error.broken else "later" if error.later else "failed"
    return Outcome(kind, f"{what}: {error}", pauses=error.later)
