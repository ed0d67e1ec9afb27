"""Every metric of the catalogue against the truth: that of known traffic over a fleet, or of the test that is named."""

from __future__ import annotations

import ast
import http.client
import json
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest

from coordinator.errors import ToolFailure
from coordinator.metrics_catalogue import CATALOGUE
from coordinator.overload import Admission
from coordinator.overload.metrics import CALLS_AT_WORK, CONCURRENCY_LIMIT, SATURATION, SHED
from coordinator.settings.sections.overload import Overload
from coordinator.toolsets.tool import Criticality
from tests.metrics.traffic import CONFIG, NOWHERE, SLOW_MS, Traffic
from tests.overload.front import SMALL
from tests.support.counts import counted
from tests.support.fleets import ROOT, RunningFleet, fleet_command, scrape
from tests.support.wait import wait_until_sync
from tests.webhooks.receiver import SECRET, Receiver

_LIVE = "console/test_live.py::test_2000_tabs_hear_of_a_change_and_the_next_one_is_turned_away"
_RUNS = "runner/test_loop.py::test_failures_count_until_quarantine"
_USED = "runner/test_usage.py::test_what_a_command_says_above_the_most_of_an_attempt_is_refused_and_told"
_SHARD = "cli/test_cluster.py::test_a_stopped_shard_stops_its_projects_only"
_MAPS = "cluster/test_slots.py::test_a_thousand_redirected_calls_read_the_map_once"
ELSEWHERE: dict[str, tuple[str, str]] = {
    "coordinator_console_tabs": (_LIVE, "TABS"),
    "coordinator_console_frames_total": (_LIVE, "FRAMES"),
    "coordinator_console_frame_bytes_total": (_LIVE, "BYTES"),
    "coordinator_console_gaps_total": (
        "console/test_live.py::test_a_frame_that_says_look_at_everything_is_counted",
        "GAPS",
    ),
    "coordinator_console_shed_total": (
        "console/test_reads.py::test_in_an_overload_pages_are_shed_and_the_state_of_the_fleet_is_read",
        "SHED",
    ),
    "coordinator_console_actions_total": ("console/test_actions.py::test_a_reason_is_needed_and_kept", "ACTIONS"),
    "coordinator_run_attempts_total": (_RUNS, "ATTEMPTS"),
    "coordinator_run_attempt_seconds": (_RUNS, "DURATION"),
    "coordinator_run_cost_dollars_total": (_USED, "COST"),
    "coordinator_run_usage_refused_total": (_USED, "USAGE_REFUSED"),
    "coordinator_run_attempts_running": (_RUNS, "RUNNING"),
    "coordinator_runs_paused": (_RUNS, "PAUSED"),
    "coordinator_store_shard_away": (_SHARD, "away"),
    "coordinator_store_slots_uncovered": (_SHARD, "coordinator_store_slots_uncovered"),
    "coordinator_store_torn_scripts_total": (_SHARD, "coordinator_store_torn_scripts_total"),
    "coordinator_store_maps_total": (_MAPS, "MAPS"),
    "coordinator_store_redirects_total": (_MAPS, "REDIRECTS"),
    "coordinator_identity_key_age_seconds": (
        "identity/test_fleet_keys.py::test_a_stale_copy_is_used_and_reported_as_stale",
        "KEY_AGE",
    ),
}
"""Metrics of what this fleet does not have -> the test that compares them with the truth, and its word for them."""


class Shown:
    """What a fleet says, without what it said before; notes which metrics were asked for."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._before = self._now = scrape(port)
        self.asked: set[str] = set()

    def look(self) -> bool:
        """Asks again; False."""
        self._now = scrape(self._port)
        return False

    def _series(self, name: str, labels: dict[str, str]) -> list[str]:
        """The series of a metric that have these labels."""
        found = []
        for series in self._now:
            own, _, rest = series.partition("{")
            has = dict(label.split("=", 1) for label in rest.removesuffix("}").split(",")) if rest else {}
            if own == name and labels.items() <= has.items():
                found.append(series)
        return found

    def more(self, name: str, **labels: str) -> float:
        """By how much a counter has risen: the sum of its series that have these labels."""
        self.asked.add(name)
        return sum(self._now[series] - self._before.get(series, 0) for series in self._series(name, labels))

    def gauge(self, name: str, **labels: str) -> float:
        """The same of a gauge, as it is now."""
        self.asked.add(name)
        return sum(self._now[series] for series in self._series(name, labels))

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """A counter by the values of a label, without those that have not risen."""
        self.asked.add(name)
        found = Counter[str]()
        for series in self._series(name, labels):
            value = series.partition(f"{label}=")[2].partition(",")[0].removesuffix("}")
            found[value] += self._now[series] - self._before.get(series, 0)  # type: ignore[assignment]
        return {value: count for value, count in found.items() if count}

    def times(self, name: str, **labels: str) -> tuple[float, float]:
        """Of a histogram: how many, and their sum."""
        self.asked.add(name)
        count, total = (self.more(f"{name}_{part}", **labels) for part in ("count", "sum"))
        self.asked -= {f"{name}_count", f"{name}_sum"}
        (*_, most) = sorted(
            (self._now[series] - self._before.get(series, 0) for series in self._series(f"{name}_bucket", labels)),
        ) or (0.0,)
        assert most == count or labels == {}, f"{name}: the last bucket has all"
        return count, total


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningFleet, Receiver]]:
    folder = tmp_path_factory.mktemp("truth")
    with Receiver() as receiver:
        hook = {"url": receiver.url, "secret_env": "HOOK_SECRET", "allow_private": True}
        (folder / "fleet.yaml").write_text(json.dumps({**CONFIG, "webhooks": {"hook": hook}}))
        arguments = ("--port", "0", "--config", str(folder / "fleet.yaml"), "--frontends", "2", "--workers", "1")
        demo = {"FLEET_FLOWS_DEMO_TOOLS": "true", "HOOK_SECRET": SECRET}
        with RunningFleet(folder / "data", *arguments, **demo) as fleet:
            fleet.wait_ready()
            yield fleet, receiver


def test_each_metric_says_what_has_happened(fleet: tuple[RunningFleet, Receiver]) -> None:
    running, receiver = fleet
    shown, traffic, begun = Shown(running.port), Traffic(running.port), monotonic()

    def reaches(name: str, value: float, **labels: str) -> None:
        """Waits until a gauge or a counter has this value."""

        def there() -> bool:
            shown.look()
            return shown.gauge(name, **labels) == value

        wait_until_sync(there, what=f"{name} of {labels} to be {value}")

    try:
        _items(running, traffic)
        _work(traffic)
        _waits(traffic, shown, reaches)
        reaches("coordinator_items", 9, role="queue")
        reaches("coordinator_runs_ended_total", 1, kind="flows", status="failed")
        wait_until_sync(
            lambda: shown.look() or shown.times("coordinator_claim_hold_seconds")[0] == 7, what="all ended claims"
        )
        elapsed = monotonic() - begun
        _compare_calls(shown, traffic)
        _compare_items(shown, elapsed)
        _compare_work(shown, elapsed)
        _compare_deliveries(shown, traffic, len(receiver.got))
        _compare_processes(shown, elapsed)
    finally:
        traffic.close()
    names = {metric.name for metric in CATALOGUE}
    assert shown.asked | set(ELSEWHERE) == names, sorted(names ^ (shown.asked | set(ELSEWHERE)))
    assert shown.asked.isdisjoint(ELSEWHERE)


def _items(running: RunningFleet, traffic: Traffic) -> None:
    done, back, late, held, wants, spent, left, hope, fail, gone, _, _, _ = traffic.create(
        *({} for _ in range(3)),
        {"resources": [{"key": "gpu"}]},
        {"resources": [{"key": "gpu", "units": 2}]},
        {"budget": {"tokens": 1}},
        *({} for _ in range(4)),
        {},
        {"notBefore": "+1h"},
        {"dueAt": "2020-01-01T00:00:00Z"},
    )
    traffic.claim("late", "success", {"itemId": late, "ttlSeconds": 1})
    traffic.claim("left", "success", {"itemId": left, "ttlSeconds": 1})
    traffic.advance("left", left, "start")
    request = str(uuid.uuid4())
    for _ in range(2):
        traffic.claim("ann", "success", {"itemId": done}, request=request)
    ann = {"id": "ann", "kind": "subagent"}
    traffic.call("claim_item", "error", actor=ann, requestId=request, claims=[{"itemId": back}])
    for _ in range(2):
        traffic.claim("ann", "success", {"itemId": done})
    for rival in ("bob", "carl", "dan"):
        traffic.claim(rival, "already_claimed", {"itemId": done})
    traffic.claim("bob", "not_found", {"itemId": NOWHERE})
    traffic.advance("ann", done, "start", "complete")
    traffic.claim("bob", "terminal_item", {"itemId": done})
    traffic.claim("ann", "success", {"itemId": gone}, {"itemId": back})
    traffic.claim("ann", "stale_fence", {"itemId": back, "fenceToken": 1})
    traffic.release("ann", back)
    traffic.claim("holder", "success", {"itemId": held})
    traffic.claim("bob", "resource_busy", {"itemId": wants})
    used = {"inputTokens": 200, "outputTokens": 50, "cachedTokens": 20, "costMicroUsd": 3000, "wallMs": 4000}
    note = {"itemId": spent, "key": "k", "role": "work", "actor": ann, "usage": used}
    traffic.call("manage_notes", operation="upsert", notes=[note])
    traffic.claim("bob", "budget_exhausted", {"itemId": spent})
    traffic.claim("bob", "no_match", {"selector": {"tags": "none"}})
    for item, reason in ((hope, "hopeless"), (fail, "failed")):
        traffic.claim("h", "success", {"itemId": item})
        traffic.advance("h", item, "start")
        traffic.release("h", item, reason=reason, detail="x")
    start = {"itemId": held, "trigger": "start", "actor": {"id": "bob", "kind": "subagent"}}
    (refused,) = traffic.call("advance_item", transitions=[start])["results"]
    assert refused["errorCode"] == "not_claim_holder"
    assert fleet_command("agents", "drain", "zed", "--data-dir", str(running.data_dir)).returncode == 0
    traffic.claim("zed", "agent_draining", {"itemId": gone})


def _work(traffic: Traffic) -> None:
    flow = {
        "start": {"name": "it", "tool": "echo", "args": {"value": "x"}, "next": "two"},
        "two": {"name": "two", "tool": "fail", "args": {"message": "no"}, "done": True},
    }
    traffic.call("workflow_create", toolset="flows", name="f", flow=flow)
    begun = traffic.call("workflow.start", toolset="gateway", definitionId="review", input={})
    submit = {"toolset": "gateway", "workflowId": begun["workflowId"], "transition": "close", "arguments": {}}
    traffic.call("workflow.submit", "error", expectedVersion=7, **submit)
    traffic.call("workflow.submit", expectedVersion=1, **submit)
    traffic.call("next_activity", "error", toolset="sessions", session_token="x", activity_id="a")


def _waits(traffic: Traffic, shown: Shown, reaches: Callable[..., None]) -> None:
    selector = {"selector": {"tags": "rare"}}
    traffic.claim("bob", "no_match", selector, waitMs=SLOW_MS)
    other = Traffic(traffic.port)
    with ThreadPoolExecutor(1) as pool:
        parked = pool.submit(other.claim, "eve", "success", selector, waitMs=20_000)
        reaches("coordinator_agents_waiting", 1)
        reaches("coordinator_calls_at_work", 0)  # who waits is not at work
        reaches("coordinator_agents_waiting", 1)
        assert shown.gauge("coordinator_inflight") >= 1
        listener = http.client.HTTPConnection("127.0.0.1", traffic.port, timeout=10)
        listener.request("GET", "/feed/default", headers={"accept": "text/event-stream"})
        response = listener.getresponse()
        reaches("coordinator_feed_listeners", 1)
        (item,) = traffic.create({"tags": "rare"})
        assert parked.result(60)[0]["itemId"] == item
        while item.encode() not in response.readline():
            pass
        listener.close()
        response.close()
        reaches("coordinator_feed_listeners", 0)
        reading = pool.submit(other.call, "get_context", itemId=item, waitFor="terminal", waitMs=20_000)
        reaches("coordinator_reads_waiting", 1)
        traffic.advance("eve", item, "start", "complete")
        assert reading.result(60)["waited"]["met"]
    traffic.add(other)
    other.close()


def _compare_calls(shown: Shown, traffic: Traffic) -> None:
    for tool, outcome in traffic.calls:
        assert shown.more("coordinator_requests_total", tool=tool, outcome=outcome) == traffic.calls[tool, outcome], (
            tool
        )
    assert shown.more("coordinator_requests_total") == traffic.count
    count, seconds = shown.times("coordinator_request_duration_seconds")
    assert count == traffic.count
    assert 0 < seconds < traffic.seconds
    assert sum(shown.by("coordinator_fast_path_total", "result").values()) == traffic.count
    assert sum(shown.by("coordinator_slot_requests_total", "slot").values()) == traffic.count
    assert shown.times("coordinator_store_script_duration_seconds", script="claim_item")[0] == traffic.claims_by_id
    assert shown.by("coordinator_store_script_failures_total", "script") == {"claim_item": 1}
    ids = {"new": len(traffic.requests), "replay": 1, "mismatch": 1}
    assert shown.by("coordinator_idempotency_total", "result") == ids
    assert shown.by("coordinator_identity_verifications_total", "result") == {"unchecked": traffic.actors}
    assert shown.by("coordinator_identity_trust_total", "whose", policy="accept-cached") == {"actor": traffic.actors}
    assert shown.by("coordinator_session_tokens_refused_total", "reason") == {"malformed": 1}
    for nothing in (
        *("store_errors_total", "shed_total", "auth_refused_total", "token_file_reads_total", "store_went_back_total"),
        *("operations_restarted_total", "config_reloads_total", "feed_cut_total", "store_foreign_libraries_total"),
        *("subscription_notifications_total", "session_checkpoints_total", "questions_total", "tasks_total"),
        *("feed_gaps_total", "webhook_gaps_total", "process_restarts_total", "worker_jobs_total", "states_lost_total"),
        *("step_reports_refused_total", "step_leases_lost_total", "step_jobs_restored_total", "occurrences_total"),
        *("connection_uses_total", "identity_key_fetches_total", "gateway_audit_copies_total"),
    ):
        assert shown.more(f"coordinator_{nothing}") == 0, nothing
    for none in ("admission_queue_seconds", "identity_verification_seconds"):
        assert shown.times(f"coordinator_{none}") == (0, 0), none


def _compare_items(shown: Shown, elapsed: float) -> None:
    claims = {
        "success": 8,
        "renewed": 2,
        "already_claimed": 3,
        "no_match": 2,
        **dict.fromkeys(("not_found", "terminal_item", "superseded", "stale_fence", "resource_busy"), 1),
        **dict.fromkeys(("budget_exhausted", "agent_draining"), 1),
    }
    assert shown.by("coordinator_claims_total", "outcome") == claims
    conflicts = {"busy": 3, "not_holder": 1, "stale_fence": 1}
    assert shown.by("coordinator_claim_conflicts_total", "kind") == conflicts
    assert shown.times("coordinator_claim_hold_seconds", end="expired") == (2, 2.0), "as long as their ttlSeconds"
    for end, count in (("completed", 2), ("released", 3)):
        found, seconds = shown.times("coordinator_claim_hold_seconds", end=end)
        assert found == count
        assert 0 < seconds < elapsed
    assert shown.times("coordinator_claim_losers") == (7, 3)
    in_vain, waited = shown.times("coordinator_claim_wait_seconds", end="in_vain")
    assert in_vain == 1
    assert SLOW_MS / 1000 <= waited < elapsed
    assert shown.times("coordinator_claim_wait_seconds", end="served")[0] == 1
    for role, count in {"queue": 9, "work": 2, "review": 0, "blocked": 1, "terminal": 2}.items():
        assert shown.gauge("coordinator_items", role=role) == count
    assert 0 < shown.gauge("coordinator_oldest_ready_age_seconds") < elapsed
    assert shown.by("coordinator_attempts_total", "end") == {"expired": 1, "failed": 1, "hopeless": 1}
    assert shown.more("coordinator_quarantines_total") == 1
    gauges = {
        "quarantined_items": 1,
        "backoff_items": 2,
        "postponed_items": 1,
        "overdue_items": 1,
        "agent_drains": 1,
        "agents_known": 10,
        "spent_budgets": 1,
        "abandoned_items": 0,
        "oldest_abandoned_age_seconds": 0,
        "usage_today_tokens": 250,
        "usage_today_cost_micro_usd": 3000,
        "usage_cost_micro_usd": 3000,
        "usage_seconds": 4,
        "agents_waiting": 0,
        "reads_waiting": 0,
    }
    for name, value in gauges.items():
        assert shown.gauge(f"coordinator_{name}") == value, name
    for kind, tokens in (("input", 200), ("output", 50), ("cached", 20)):
        assert shown.gauge("coordinator_usage_tokens", project="default", kind=kind) == tokens
    assert shown.gauge("coordinator_project_budget_spent_ratio", project="default", period="total") == 0.25
    assert shown.gauge("coordinator_agent_budget_spent_ratio", agents="ann", period="day") == 0.5
    of_gpu = {"capacity": 2, "held": 1, "reservations": 0, "waiting_items": 1}
    for name, value in of_gpu.items():
        assert shown.gauge(f"coordinator_resource_{name}", resource="gpu") == value, name
    assert 0 < shown.gauge("coordinator_resource_wait_seconds", resource="gpu") < elapsed
    assert shown.gauge("coordinator_resource_minute_units_left", resource="llm") == 3
    assert "failure" not in shown.by("coordinator_wait_reads_total", "reason")
    assert shown.by("coordinator_waits_ended_total", "outcome") == {"met": 1}


def _compare_work(shown: Shown, elapsed: float) -> None:
    assert shown.by("coordinator_steps_total", "outcome") == {"ok": 2, "failed": 1}
    for name in ("step_duration", "step_wait"):
        count, seconds = shown.times(f"coordinator_{name}_seconds")
        assert count == 3
        assert 0 <= seconds < elapsed
    assert shown.by("coordinator_runs_ended_total", "kind", status="failed") == {"flows": 1}
    assert shown.by("coordinator_runs_ended_total", "kind", status="completed") == {"gateway": 1}
    assert shown.by("coordinator_gateway_submits_total", "result") == {"ok": 1, "STALE_WORKFLOW_VERSION": 1}
    count, seconds = shown.times("coordinator_gateway_executor_seconds")
    assert shown.times("coordinator_gateway_executor_seconds", kind="noop", outcome="ok") == (count, seconds)
    assert count == 1
    assert 0 < seconds < elapsed
    for nothing in ("steps_running", "steps_queued", "states_held", "gateway_servers_unavailable", "open_approvals"):
        assert shown.gauge(f"coordinator_{nothing}") == 0, nothing
    assert shown.gauge("coordinator_oldest_approval_age_seconds") == 0


def _compare_deliveries(shown: Shown, traffic: Traffic, received: int) -> None:
    delivered = {"delivered": received}
    assert shown.by("coordinator_webhook_attempts_total", "outcome") == delivered
    assert shown.times("coordinator_webhook_attempt_seconds")[0] == received > 30
    assert shown.gauge("coordinator_webhooks", state="active") == shown.gauge("coordinator_webhooks") == 1
    assert shown.gauge("coordinator_webhook_lag_seconds") == 0
    before = shown.more("coordinator_feed_deliveries_total")
    count, seconds = shown.times("coordinator_feed_lag_seconds")
    assert count > 0 < before
    assert 0 <= seconds < traffic.seconds
    for name in ("feed_listeners", "subscriptions"):
        assert shown.gauge(f"coordinator_{name}") == 0
    status, body = traffic.get("/feed/default?after=oldest", accept="application/json")
    assert status == 200
    shown.look()
    assert shown.more("coordinator_feed_deliveries_total") - before == len(json.loads(body)["events"]) > 30


def _compare_processes(shown: Shown, elapsed: float) -> None:
    assert {role: shown.gauge("coordinator_processes", role=role) for role in ("frontend", "worker")} == {
        "frontend": 2,
        "worker": 1,
    }
    for slot in ("fe-0", "fe-1", "w-0"):
        assert shown.gauge("coordinator_process_resident_memory_bytes", slot=slot) > 2**24
        assert 0 < shown.more("coordinator_process_cpu_seconds_total", slot=slot) < 2 * elapsed
    for role in ("frontend", "worker"):
        assert shown.times("coordinator_event_loop_lag_seconds", role=role)[0] > 0
    assert shown.gauge("coordinator_build_info") == shown.gauge("coordinator_config_info") == 1
    assert shown.gauge("coordinator_store_breaker", state="closed") == shown.gauge("coordinator_store_breaker") == 2
    given = Overload()
    for slot in ("fe-0", "fe-1"):
        assert given.least_limit <= shown.gauge("coordinator_concurrency_limit", slot=slot) <= given.most_limit
    for nothing in ("calls_at_work", "saturation", "admission_waiting", "store_changed", "process_drains"):
        assert shown.gauge(f"coordinator_{nothing}") == 0, nothing
    assert 0 <= shown.gauge("coordinator_inflight") <= 1, "that of the metrics"
    assert 1 <= shown.gauge("coordinator_connections") <= 4
    assert shown.gauge("coordinator_identity_state", state="off") == 3
    assert shown.gauge("coordinator_identity_policy", policy="accept-cached") == 3
    memory, limit = (shown.gauge(f"coordinator_store_memory_{name}bytes") for name in ("", "limit_"))
    assert 2**20 < memory < 2**27
    assert shown.gauge("coordinator_store_memory_ratio") == (memory / limit if limit else 0)
    assert 0 < shown.gauge("coordinator_store_append_file_bytes") < 2**27
    assert 3 <= shown.gauge("coordinator_store_clients") < 40
    free, share = shown.gauge("coordinator_store_disk_free_bytes"), shown.gauge("coordinator_store_disk_free_ratio")
    disk = shutil.disk_usage(ROOT)
    assert 0 < share < 1
    assert free > 0 < disk.free


def test_the_tests_of_other_metrics_compare_them() -> None:
    for name, (place, word) in ELSEWHERE.items():
        file, _, test = place.partition("::")
        found = {
            node.name: node
            for node in ast.parse((ROOT / "tests" / file).read_text()).body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert test in found, f"{name}: there is no {place}"
        assert word in ast.unparse(found[test]), f"{name}: {place} does not name it"


@pytest.mark.anyio
async def test_the_limit_is_compared_with_what_it_limits() -> None:
    admission = Admission(SMALL, lambda: 0.0)
    calls = [admission.enter(Criticality.NORMAL, f"a{n}", f"p{n}") for n in range(3)]
    parked = [admission.enter(Criticality.NORMAL, f"b{n}", f"q{n}", parks=True) for n in range(2)]
    admission.report()
    limit = counted(CONCURRENCY_LIMIT)
    assert counted(CALLS_AT_WORK) == len(calls) == 3
    assert counted(SATURATION) == 3 / limit
    admission.draining = True
    with pytest.raises(ToolFailure):
        admission.enter(Criticality.NORMAL, "c", "r")
    assert counted(SHED, "normal", "draining") == 1
    for ticket in (*calls, *parked):
        assert ticket is not None
        admission.leave(ticket)
    admission.report()
    assert counted(CALLS_AT_WORK) == 0
