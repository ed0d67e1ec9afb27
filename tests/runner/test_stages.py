"""One attempt through its stages, with real commands."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from coordinator.runner import records, stages, watch
from coordinator.runner.presets import PRESETS, Preset
from coordinator.runner.protocols import JobAttempt, WorkspaceFailed
from coordinator.runner.records import NoRoom, RunRecord
from coordinator.runner.stages import Access, AttemptReport, AttemptRun
from coordinator.runner.workspaces.hooks import NONE, Hooks
from tests.runner.attempts import Hurried
from tests.support.wait import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]

TOKEN = "the-runners-own-token"
ITEM = {"id": "3fa85f64-5717-4562-b3fc-2c963f66afa6", "title": "Write it", "description": "All of it."}


@dataclass
class Job:
    """An item that nobody claims."""

    item: Mapping[str, Any] = field(default_factory=lambda: ITEM)
    notes: Sequence[Mapping[str, Any]] = ()
    results: Sequence[Mapping[str, Any]] = ()
    attempt: int = 1
    takeover: bool = False


@dataclass
class Directory:
    """A plain directory as workspace, and as the maker of them."""

    path: Path
    fails: WorkspaceFailed | None = None
    refuses: WorkspaceFailed | None = None
    closed: list[bool] = field(default_factory=list)
    commits: int = 0
    remarks: Sequence[str] = ()
    hooks: Hooks = NONE

    async def start(self) -> tuple[()]:
        return ()

    def program(self, path: str, *, made: bool) -> None:
        return None

    async def open(self, attempt: JobAttempt) -> Directory:
        if self.fails is not None:
            raise self.fails
        return self

    def changed_since(self, moment: float) -> bool:
        return any(file.stat().st_mtime >= moment for file in self.path.rglob("*"))

    changed = changed_since

    async def commit(self) -> str | None:
        self.commits += 1
        if self.refuses is not None:
            raise self.refuses
        return None

    async def close(self, *, done: bool) -> str:
        self.closed.append(done)
        return "kept"


class Bench:
    """Runs attempts in a directory of the test's own."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self.space = Directory(directory / "work")
        self.space.path.mkdir()
        self.said: list[str] = []
        records.prepare(self.state)

    def attempt(
        self, command: str | Sequence[str], job: Job | None = None, **more: Any
    ) -> tuple[AttemptRun, RunRecord]:
        job = job or Job()
        words = ("sh", "-c", command) if isinstance(command, str) else tuple(command)
        options: dict[str, Any] = {"environment": dict(os.environ), "timeout": 60.0} | more
        mcp = options.pop("mcp", None)
        record = records.begin(self.state, str(job.item["id"]), str(job.item["title"]), job.attempt, set())
        access = Access("http://fleet:1", "p", "team/a", (TOKEN,), mcp)
        made = Hurried(command=words, state=self.state, **options)
        return AttemptRun(job, record, made, access, self.space, self.said.append), record

    async def run(self, command: str | Sequence[str], job: Job | None = None, **more: Any) -> AttemptReport:
        run, record = self.attempt(command, job, **more)
        try:
            return await run.run()
        finally:
            await run.close(done=False)
            record.close()

    def file(self, name: str) -> str:
        """A file of the last attempt."""
        directory = max((self.state / "runs").iterdir(), key=lambda one: one.stat().st_mtime_ns)
        return (directory / name).read_text()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_a_command_gets_prompt_place_and_variables_and_leaves_a_result(bench: Bench) -> None:
    report = await bench.run(
        """cat > prompt.txt; env > env.txt; pwd > where.txt; cat > "$FLEET_RESULT_FILE" << END
        {"result": {"n": 1}, "summary": "did it", "notes": {"plan": "p"}, "usage": {"costUsd": 0.5}}
END
        """
    )
    work = bench.space.path
    assert report.outcome.kind == "done"
    assert (report.result, report.summary, report.notes) == ({"n": 1}, "did it", {"plan": "p"})
    assert report.note["costUsd"] == report.used["costMicroUsd"] / 1e6 == 0.5
    assert "Write it" in (work / "prompt.txt").read_text()
    assert (work / "where.txt").read_text().strip() == str(work)
    lines = dict(line.partition("=")[::2] for line in (work / "env.txt").read_text().splitlines())
    assert (lines["FLEET_ITEM_ID"], lines["FLEET_URL"], lines["FLEET_PROJECT"], lines["FLEET_WORKSPACE"]) == (
        ITEM["id"], "http://fleet:1", "p", str(work)
    )  # fmt: skip
    assert "FLEET_TOKEN" not in lines
    assert bench.space.closed == [False]


async def test_arguments_are_filled_in_and_nothing_of_the_item_but_its_id_is_there(bench: Bench) -> None:
    script = 'printf "%s\\n" "$@" > args; cat "$1" > prompt; stat -c %a "$1" > mode'
    await bench.run(["sh", "-c", script, "x", "{prompt_file}", "{workspace}", "id={item.id}", "{}"])
    work = bench.space.path
    assert (work / "args").read_text().splitlines()[1:] == [str(work), f"id={ITEM['id']}", "{}"]
    assert "All of it." in (work / "prompt").read_text()
    assert (work / "mode").read_text() == "600\n"


async def test_secrets_are_masked_in_logs_record_and_report(bench: Bench) -> None:
    environment = {"PATH": os.environ["PATH"], "DB_PASSWORD": "a-database-password", "OTHER_KEY": "not-passed-on"}
    report = await bench.run(
        f"""echo $DB_PASSWORD; echo {TOKEN} >&2; echo not-passed-on >&2; cat > "$FLEET_RESULT_FILE" << END
        {{"outcome": "failed", "summary": "$DB_PASSWORD", "result": {{"of": "$DB_PASSWORD"}}}}
END
        """,
        environment=environment,
        passed=("DB_PASSWORD",),
    )
    texts = [bench.file(name) for name in ("stdout.log", "stderr.log", "run.json")] + [str(report)]
    for text in texts:
        assert "a-database-password" not in text
        assert TOKEN not in text
        assert "not-passed-on" not in text
    assert bench.file("stdout.log") == "[masked]\n"


@pytest.mark.parametrize(
    ("command", "kind", "words"),
    [
        ("echo no >&2; exit 3", "failed", "exit code 3: no"),
        ("exit 65", "hopeless", "65"),
        ("exit 75", "later", "75"),
        (["no-such-program"], "broken", "127"),
        ("kill -9 $$", "failed", "SIGKILL"),
        ('echo {\\"outcome\\": 1} > "$FLEET_RESULT_FILE"', "failed", "outcome"),
        ('mkfifo "$FLEET_RESULT_FILE"', "failed", "regular"),
    ],
)
async def test_ends(bench: Bench, command: str | list[str], kind: str, words: str) -> None:
    report = await bench.run(command)
    assert report.outcome.kind == kind
    assert words in report.outcome.reason
    assert report.note["outcome"] == kind
    assert json.loads(bench.file("run.json"))["outcome"] == kind


async def test_verification_decides(bench: Bench) -> None:
    report = await bench.run("touch made", verify=("test", "-f", "made"))
    assert report.outcome.kind == "done"
    report = await bench.run("true", verify=("sh", "-c", "echo missing file >&2; exit 1"))
    assert report.outcome.kind == "failed"
    assert report.outcome.reason == "verification failed: exit code 1: missing file"
    report = await bench.run("true", verify=("no-such-check",))
    assert report.outcome.kind == "broken"


async def test_changes_can_be_required(bench: Bench) -> None:
    assert (await bench.run("true", require_changes=True)).outcome.reason == "it changed nothing"
    assert (await bench.run("echo > file", require_changes=True)).outcome.kind == "done"


async def test_a_workspace_that_cannot_be_made(bench: Bench) -> None:
    bench.space.fails = WorkspaceFailed("no repository", broken=True)
    report = await bench.run("true")
    assert (report.outcome.kind, report.outcome.reason) == ("broken", "no workspace: no repository")
    bench.space.fails = WorkspaceFailed("the hook says no")
    assert (await bench.run("true")).outcome.kind == "failed"


async def test_an_attempt_whose_files_cannot_be_made_is_handed_back(bench: Bench) -> None:
    run, record = bench.attempt("true")
    shutil.rmtree(record.attempt.directory)
    outcome = (await run.run()).outcome
    assert (outcome.kind, outcome.pauses) == ("later", True)
    assert outcome.reason == "logs cannot be kept: No such file or directory"
    record.close()
    deletes = bench.attempt("rm -r $PWD/../state/runs/*", verify=("true",))[0]
    assert (await deletes.run()).outcome.reason == "logs cannot be kept: No such file or directory"


async def test_work_is_committed_however_the_command_ended(bench: Bench) -> None:
    bench.space.refuses = WorkspaceFailed("hook says no")
    assert (await bench.run("exit 3")).outcome.reason == "exit code 3"
    assert (await bench.run("true")).outcome.reason == "the work could not be committed: hook says no"
    assert bench.space.commits == 2


async def test_the_time_limit_ends_a_command(bench: Bench) -> None:
    report = await bench.run("sleep 600", timeout=0.1, ttl=1)
    assert report.outcome.kind == "failed"
    assert "--timeout" in report.outcome.reason


async def test_the_time_limit_does_not_wait_for_a_look_at_the_workspace(bench: Bench) -> None:
    looks, looked = threading.Event(), threading.Event()

    def changed_since(_: float) -> bool:
        looks.set()
        return looked.wait(60)

    bench.space.changed_since = changed_since  # type: ignore[method-assign, assignment]
    run, record = bench.attempt("sleep 600", timeout=1.0, stall=0.4, ttl=1)
    run_of = asyncio.create_task(run.run())
    try:
        await wait_until(looks.is_set, what="it looks")
        await wait_until(lambda: "--timeout" in _reason(bench), what="the command is over")
    finally:
        looked.set()
    assert (await run_of).outcome.kind == "failed"
    record.close()


def _reason(bench: Bench) -> str:
    return str(json.loads(bench.file("run.json")).get("reason", ""))


async def test_the_time_limit_ends_what_ignores_signals_and_holds_the_output(bench: Bench) -> None:
    script = "trap '' INT TERM; setsid sh -c 'trap \"\" INT TERM HUP; exec sleep 600' & exec sleep 600"
    report = await bench.run(script, timeout=0.3, ttl=10)
    assert "--timeout" in report.outcome.reason
    assert report.note["seconds"] < 0.3 + 20  # which the help says


async def test_a_command_that_does_nothing_stalls(bench: Bench) -> None:
    report = await bench.run("echo begun; sleep 600", stall=0.4, ttl=1)
    assert report.outcome.kind == "failed"
    assert "--stall" in report.outcome.reason
    assert any("no output" in line for line in bench.said)


async def test_cpu_time_and_changed_files_are_signs_of_life(bench: Bench) -> None:
    busy = "end=$(($(date +%s%N) + 1500000000)); while [ $(date +%s%N) -lt $end ]; do :; done"
    writes = "for i in 1 2 3 4 5 6 7 8; do echo > file; sleep 0.2; done"
    for command in (busy, writes):
        assert (await bench.run(command, stall=0.8)).outcome.kind == "done"


async def test_an_agent_that_stays_after_its_final_event_is_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "FINISHED_SECONDS", 0.05)
    event = {"type": "result", "subtype": "success", "is_error": False, "result": "all done", "total_cost_usd": 0.1}
    preset = Preset(reader=PRESETS["claude"].reader, speaks=True)
    report = await bench.run(f"echo {shlex.quote(json.dumps(event))}; sleep 600", preset=preset, ttl=1)
    assert (report.outcome.kind, report.result) == ("done", "all done")


async def test_a_drain_hands_back(bench: Bench) -> None:
    run, record = bench.attempt("echo > begun; sleep 600", ttl=1)
    task = asyncio.create_task(run.run())
    await wait_until((bench.space.path / "begun").exists)
    run.stop("drain")
    assert (await task).outcome.kind == "later"
    record.close()


@pytest.mark.parametrize("moment", ["before", "meanwhile", "verifying"])
async def test_a_kill_ends_it_at_once_and_commits_nothing(bench: Bench, moment: str) -> None:
    stubborn = "trap '' INT TERM; echo > begun; while :; do sleep 1; done"
    verify = ("sh", "-c", stubborn) if moment == "verifying" else ()
    run, record = bench.attempt("true" if verify else stubborn, verify=verify)
    if moment == "before":
        run.kill()
    task = asyncio.create_task(run.run())
    if moment != "before":
        await wait_until((bench.space.path / "begun").exists)
        run.kill()
    async with asyncio.timeout(10):  # SIGKILL comes 15 s after a stop
        report = await task
    assert (report.outcome.kind, report.outcome.reason) == ("later", "the runner stops")
    assert bench.space.commits == (1 if verify else 0)
    record.close()


async def test_a_lost_claim_ends_the_command_and_keeps_the_workspace(bench: Bench) -> None:
    run, record = bench.attempt("trap '' INT TERM; echo $$ > begun; while :; do sleep 1; done", ttl=1)
    task = asyncio.create_task(run.run())
    begun = bench.space.path / "begun"
    pid = await wait_until(lambda: begun.exists() and begun.read_text().strip())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not os.path.exists(f"/proc/{pid}")  # noqa: ASYNC240
    assert bench.space.commits == 0
    assert json.loads(bench.file("run.json"))["outcome"] == "lost"
    record.close()


async def test_a_claim_that_is_lost_as_the_command_ends_is_lost(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def watched(*_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            task.cancel()

    monkeypatch.setattr(stages, "watch", watched)
    run, record = bench.attempt("true")
    task = asyncio.create_task(run.run())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert json.loads(bench.file("run.json"))["outcome"] == "lost"
    record.close()


async def test_the_token_of_a_claim_is_in_a_private_file_only(bench: Bench) -> None:
    script = (
        "env > env; cat /proc/$$/cmdline > line; cat $FLEET_MCP_CONFIG > config; stat -c %a $FLEET_MCP_CONFIG > mode"
    )
    await bench.run(script, mcp={"Authorization": "Bearer a-token-for-this-claim"})
    work = bench.space.path
    assert "a-token" not in (work / "env").read_text() + (work / "line").read_text()
    assert "Bearer a-token-for-this-claim" in (work / "config").read_text()
    assert (work / "mode").read_text() == "600\n"
    assert not list(bench.state.rglob("mcp.json"))


# --- records


def test_each_run_of_an_attempt_has_a_place_of_its_own(tmp_path: Path) -> None:
    records.prepare(tmp_path)
    made = [records.begin(tmp_path, str(ITEM["id"]), "t", 2, {"run-2-2"}) for _ in range(3)]
    assert [one.attempt.label for one in made] == ["2", "2-3", "2-4"]
    assert made[0].attempt.name == "3fa85f64-2"
    for one in made:
        one.close()
        assert not one.temporary.exists()
    assert list((tmp_path / "live").iterdir()) == []
    shutil.rmtree(tmp_path)
    records.begin(tmp_path, str(ITEM["id"]), "t", 2, set()).close()


def test_a_runner_starts_while_attempts_of_others_end(tmp_path: Path) -> None:
    records.prepare(tmp_path)
    (tmp_path / "live" / "ended").symlink_to("nowhere")
    records.prepare(tmp_path)


def test_without_room_nothing_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROOM_BYTES", 1 << 60)
    with pytest.raises(NoRoom, match="MiB are free"):
        records.prepare(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(NoRoom, match="Not a directory"):
        records.prepare(tmp_path / "file" / "state")


def test_one_runner_of_a_host_acts_as_an_agent(tmp_path: Path) -> None:
    with ExitStack() as held:
        for fleet, agent in (("fleet", "a"), ("fleet", "b"), ("other", "a")):
            held.enter_context(records.alone(tmp_path, fleet, agent))
        with pytest.raises(NoRoom, match="another runner on this host acts as a:"):
            held.enter_context(records.alone(tmp_path, "fleet", "a"))
    with records.alone(tmp_path, "fleet", "a"):
        pass


def test_old_logs_are_deleted_and_those_of_living_attempts_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "PRUNE_SECONDS", 0.0)
    records.prepare(tmp_path)
    made = [records.begin(tmp_path, f"{number}" * 32, "t", 1, set()) for number in (1, 2, 3)]
    made[0].close()
    made[1].close()
    for one in (made[0], made[2]):
        os.utime(one.attempt.directory, (0, 0))
    records.prune(tmp_path)
    assert [one.attempt.directory.exists() for one in made] == [False, True, True]
    made[2].close()
