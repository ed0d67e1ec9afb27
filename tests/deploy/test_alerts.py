"""Each alert fires and stays silent as it should: one case each, run by promtool."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML

from coordinator.metrics.conditions import CONDITIONS, REPORTED, UNCHECKED
from coordinator.metrics_catalogue import CATALOGUE
from tests.deploy.alert_rules import DEPLOY, FILES, RULES, alerts, rules

_SUFFIXES = ("_bucket", "_sum", "_count")
_OTHERS = {"up"}
"""Metrics of Prometheus itself."""

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: apt-get install prometheus)"
)

CALLS = 'coordinator_requests_total{tool="claim_item",outcome="ok"}'
DEFECTS = 'coordinator_requests_total{tool="claim_item",outcome="internal"}'
TOOK = 'coordinator_request_duration_seconds_bucket{tool="claim_item",transport="fast",le="%s"}'
ALL = 'coordinator_request_duration_seconds_count{tool="claim_item",transport="fast"}'
CLAIMS, TAKEN, RENEWED = (
    f'coordinator_claims_total{{outcome="{outcome}"}}' for outcome in ("success", "already_claimed", "renewed")
)
CONFLICTS = 'coordinator_claim_conflicts_total{kind="busy"}'
HOLDS = 'coordinator_claim_hold_seconds_count{end="%s"}'
TRIMMED, LOST = (f'coordinator_%s_gaps_total{{reason="{reason}"}}' for reason in ("trimmed", "lost"))
WAITED, BUSY = (f'coordinator_resource_{what}{{resource="gpu"}}' for what in ("wait_seconds", "waiting_items"))
SPENT = 'coordinator_project_budget_spent_ratio{project="default",period="%s"}'
USED, OTHER = (f'coordinator_connection_uses_total{{connection="{name}",outcome="%s"}}' for name in ("a", "b"))
STEPS = 'coordinator_steps_total{outcome="ok"}'
MEMORY, DISK = "coordinator_store_memory_ratio", "coordinator_store_disk_free_ratio"
WAITS = "coordinator_oldest_approval_age_seconds"
LONG = 300
"""Minutes: more than the longest time that an alert takes to fire. Ratios are the same in windows half empty."""


class Case(NamedTuple):
    """Series in promtool's notation, one value a minute, and the minute to evaluate."""

    fires: dict[str, str]
    silent: dict[str, str]
    minute: int = 60


def slow(share: int) -> dict[str, str]:
    """Of 600 claims a minute, ``share`` take longer than 100 ms."""
    return {
        CALLS: f"0+600x{LONG}",
        TOOK % "0.1": f"0+{600 - share}x{LONG}",
        TOOK % "+Inf": f"0+600x{LONG}",
        ALL: f"0+600x{LONG}",
    }


def defects(per_minute: int) -> dict[str, str]:
    return {CALLS: f"0+6000x{LONG}", DEFECTS: f"0+{per_minute}x{LONG}"}


def histogram(name: str, slow_bucket: str, fast_bucket: str, labels: str = "") -> tuple[dict[str, str], dict[str, str]]:
    """All events in the slow bucket, and all in the fast one."""

    def series(le: str) -> str:
        return f'{name}_bucket{{{labels}{"," if labels else ""}le="{le}"}}'

    both = {series("+Inf"): "0+60x120", series(slow_bucket): "0+60x120"}
    return {**both, series(fast_bucket): "0+0x120"}, {**both, series(fast_bucket): "0+60x120"}


BURNS = [
    f"{prefix}{speed}" for prefix in ("CallsFail", "ClaimsSlow") for speed in ("Fast", "Medium", "Slow", "Creeping")
]
# Half of what the slowest alert allows is silent for all of them.
CASES: dict[str, Case] = {
    **{name: Case(defects(300), defects(3), LONG) for name in BURNS if name.startswith("Calls")},
    **{name: Case(slow(200), slow(3), LONG) for name in BURNS if name.startswith("Claims")},
    "FleetNotScraped": Case({'up{job="coordinator"}': "0x60"}, {'up{job="coordinator"}': "1x60"}),
    "NoFrontEnds": Case(
        {'coordinator_processes{role="frontend"}': "0x60"}, {'coordinator_processes{role="frontend"}': "2x60"}
    ),
    "ProcessesRestart": Case(
        {'coordinator_process_restarts_total{role="frontend",cause="exit"}': "0+1x60"},
        {'coordinator_process_restarts_total{role="frontend",cause="exit"}': "0x50 1x10"},
    ),
    "StoreUnavailable": Case(
        {'coordinator_store_breaker{state="open"}': "1x60"},
        {
            'coordinator_store_breaker{state="open"}': "0x60",
            'coordinator_store_errors_total{kind="unavailable"}': "9x60",
        },
    ),
    "StoreChanged": Case({"coordinator_store_changed": "2x60"}, {"coordinator_store_changed": "0x60"}),
    "StoreWentBack": Case(
        {"coordinator_store_went_back_total": "0+1x60"}, {"coordinator_store_went_back_total": "3x60"}
    ),
    "ForeignFunctions": Case(
        {"coordinator_store_foreign_libraries_total": "0+1x60"}, {"coordinator_store_foreign_libraries_total": "3x60"}
    ),
    "StoreShardDown": Case(
        {'coordinator_store_shard_away{shard="1"}': "2x60"},
        {'coordinator_store_shard_away{shard="1"}': "0x59 2", 'coordinator_store_shard_away{shard="0"}': "0x60"},
    ),
    "StoreSlotsUncovered": Case(
        {"coordinator_store_slots_uncovered": "5461x60"}, {"coordinator_store_slots_uncovered": "0x60"}
    ),
    "StoreRedirects": Case(
        {'coordinator_store_redirects_total{kind="moving"}': "0+60x60"},
        {'coordinator_store_redirects_total{kind="moved"}': "0x50 3x10"},
    ),
    "StoreFull": Case(
        {'coordinator_store_errors_total{kind="full"}': "0+1x60"},
        {'coordinator_store_errors_total{kind="full"}': "3x60"},
    ),
    "StoreSlow": Case(*histogram("coordinator_store_script_duration_seconds", "1.0", "0.05", 'script="claim_item"')),
    "CriticalCallsShed": Case(
        {'coordinator_shed_total{class="critical",reason="over_capacity"}': "0+6x60"},
        {'coordinator_shed_total{class="sheddable",reason="over_capacity"}': "0+60x60"},
    ),
    "SheddingForLong": Case(
        {CALLS: "0+600x60", 'coordinator_shed_total{class="normal",reason="queue_timeout"}': "0+60x60"},
        {CALLS: "0+600x60", 'coordinator_shed_total{class="normal",reason="queue_timeout"}': "0+6x60"},
    ),
    "EventLoopLate": Case(*histogram("coordinator_event_loop_lag_seconds", "1.0", "0.01", 'role="frontend"')),
    "StaleFences": Case(
        {'coordinator_claim_conflicts_total{kind="stale_fence"}': "0+1x60"},
        {'coordinator_claim_conflicts_total{kind="stale_fence"}': "5x60"},
    ),
    "RequestIdsReused": Case(
        {'coordinator_idempotency_total{result="mismatch"}': "0+1x60"},
        {'coordinator_idempotency_total{result="replay"}': "0+60x60"},
    ),
    "HighContention": Case(
        {CLAIMS: "0+200x60", TAKEN: "0+400x60", CONFLICTS: "0+400x60", RENEWED: "0+6000x60"},
        {CLAIMS: "0+500x60", TAKEN: "0+100x60", CONFLICTS: "0+100x60", RENEWED: "0+60x60"},
    ),
    "ItemsWait": Case(
        {"coordinator_oldest_ready_age_seconds": "14000+60x60"}, {"coordinator_oldest_ready_age_seconds": "100+60x60"}
    ),
    "ItemsAbandoned": Case(
        {"coordinator_oldest_abandoned_age_seconds": "600+60x60"},
        {"coordinator_oldest_abandoned_age_seconds": "100+10x60"},
    ),
    "ItemsQuarantined": Case({"coordinator_quarantined_items": "1x60"}, {"coordinator_quarantined_items": "0x60"}),
    "StoreGrows": Case({MEMORY: "0.81x60"}, {MEMORY: "0.79x60"}),
    "StoreDiskFills": Case({DISK: "0.09x60"}, {DISK: "0.11x60"}),
    "DrainForgotten": Case({"coordinator_process_drains": "1x80"}, {"coordinator_process_drains": "2x40 0 2x40"}, 80),
    "ApprovalsWait": Case({WAITS: "259000+60x60"}, {WAITS: "200000+60x60"}),
    "ItemsOverdue": Case({"coordinator_overdue_items": "1x60"}, {"coordinator_overdue_items": "0x60"}),
    "ResourceBusy": Case({WAITED: "600+60x60"}, {WAITED: "600x60", BUSY: "90x60"}),
    "BudgetAlmostSpent": Case({SPENT % "day": "0.8+0.001x60"}, {SPENT % "day": "0.79x60", SPENT % "total": "1.2x60"}),
    "BudgetSpent": Case({SPENT % "total": "1x60"}, {SPENT % "total": "0.99x60"}),
    "RunnersPaused": Case({"coordinator_runs_paused": "1x60"}, {"coordinator_runs_paused": "1x10 0 1x14 0x40"}),
    "ClaimsExpire": Case(
        {HOLDS % "released": "0+60x120", HOLDS % "expired": "0+60x120"},
        {HOLDS % "released": "0+60x120", HOLDS % "expired": "0+1x120"},
    ),
    "FeedLate": Case(*histogram("coordinator_feed_lag_seconds", "5.0", "0.1")),
    "EventsTrimmed": Case(
        {TRIMMED % "feed": "0+1x60", TRIMMED % "webhook": "0x60"},
        {TRIMMED % "feed": "4x60", TRIMMED % "webhook": "4x60", LOST % "feed": "0+1x60"},
    ),
    "WebhookDisabled": Case(
        {'coordinator_webhooks{state="disabled"}': "1x60"}, {'coordinator_webhooks{state="paused"}': "1x60"}
    ),
    "ConnectionFails": Case(
        {USED % "failed": "0+2x60", USED % "ok": "0+3x20 60x40"},
        {USED % "failed": "0+2x60", USED % "ok": "0+1x60", OTHER % "failed": "5x60"},
    ),
    "WebhookFails": Case(
        {'coordinator_webhook_lag_seconds{webhook="tracker"}': "600+60x60"},
        {'coordinator_webhook_lag_seconds{webhook="tracker"}': "10+10x60"},
    ),
    "IdentityDegraded": Case(
        {'coordinator_identity_state{state="stale"}': "2x60"}, {'coordinator_identity_state{state="ok"}': "2x60"}
    ),
    "KeysOld": Case(
        {'coordinator_identity_key_age_seconds{source="jwks_uri"}': "4000x60"},
        {'coordinator_identity_key_age_seconds{source="jwks_uri"}': "300x60"},
    ),
    "ConfigsDiffer": Case(
        {f'coordinator_config_info{{hash="h",version="{version}"}}': "1x60" for version in ("a", "b")},
        {
            'coordinator_config_info{hash="h",version="a"}': "0x60",
            'coordinator_config_info{hash="h",version="b"}': "1x60",
        },
    ),
    "ReloadRefused": Case(
        {'coordinator_config_reloads_total{outcome="refused"}': "0x50 1x10"},
        {'coordinator_config_reloads_total{outcome="ok"}': "0+1x60"},
    ),
    "NoWorkers": Case(
        {"coordinator_steps_queued": "5x60", 'coordinator_processes{role="worker"}': "0x60"},
        {"coordinator_steps_queued": "5x60", 'coordinator_processes{role="worker"}': "2x60"},
    ),
    "StepsWait": Case(*histogram("coordinator_step_wait_seconds", "300.0", "1.0")),
    "StepsStay": Case({"coordinator_steps_queued": "1x60"}, {"coordinator_steps_queued": "5x38 0 5x30"}),
    "LeasesLost": Case(
        {STEPS: "0+600x60", "coordinator_step_leases_lost_total": "0+60x60"},
        {STEPS: "0+600x60", "coordinator_step_leases_lost_total": "0+1x60"},
    ),
}


def promtool(*arguments: str, cwd: Path = RULES) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, cwd=cwd, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_cases_and_runbooks_match() -> None:
    found = alerts()
    assert found.keys() == CASES.keys()
    pages = {rule["annotations"]["runbook_url"] for rule in found.values()}
    assert pages == {f"{{{{ $externalLabels.runbooks }}}}/{path.name}" for path in (DEPLOY / "runbooks").glob("*.md")}
    for rule in found.values():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        for text in (rule["annotations"]["summary"], rule["annotations"]["description"]):
            assert not re.search(r"(humanize \}\}|\b1) [a-z]+s\b", text), f"wrong where it is one: {text}"


def test_alerts_on_states_are_those_of_the_table() -> None:
    """Doctor and the console see what Prometheus sees; what one look cannot see is named."""
    found = alerts()
    assert sorted(found) == sorted([*(one.alert for one in CONDITIONS), *UNCHECKED, *REPORTED])
    for one in CONDITIONS:
        rule = found[one.alert]
        assert " ".join(rule["expr"].split()) == one.expr
        assert rule["labels"]["severity"] == one.severity
        assert rule["annotations"] == {
            "summary": one.template(one.summary),
            "description": one.template(one.description),
            "runbook_url": f"{{{{ $externalLabels.runbooks }}}}/{one.page}",
        }


def test_alerts_that_doctor_does_not_check_are_on_rates_latencies_and_scrapes() -> None:
    """An alert on gauges alone belongs into the table. Ratios that are recorded are of rates."""
    gauges = {metric.name for metric in CATALOGUE if metric.kind == "gauge"} | {"coordinator"}
    for name in (*UNCHECKED, *REPORTED):
        used = set(re.findall(r"coordinator[a-z0-9_:]*", alerts()[name]["expr"]))
        assert used - gauges or "up{" in alerts()[name]["expr"], name


@pytest.mark.parametrize("file", ["prometheus/prometheus.yml", "docker/prometheus.yml"])
def test_one_setting_is_the_url_of_the_runbooks(file: str) -> None:
    config = YAML(typ="safe").load(DEPLOY / file)
    assert re.match(r"https://[^/]+/.*[^/]$", config["global"]["external_labels"]["runbooks"])
    (drop,) = config["alerting"]["alert_relabel_configs"]
    assert drop == {"action": "labeldrop", "regex": "runbooks"}


def test_every_metric_of_a_rule_is_in_the_catalogue() -> None:
    known = {metric.name for metric in CATALOGUE} | _OTHERS
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for rule in rules():
        for name in re.findall(r"coordinator[a-z0-9_:]*", rule["expr"]):
            if name in recorded or name == "coordinator":
                continue
            base = next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)
            assert name in known or base in known, f"{rule.get('alert') or rule['record']}: {name}"


@needs_promtool
def test_the_files_are_well_formed() -> None:
    promtool("check", "config", "prometheus.yml")


@needs_promtool
@pytest.mark.timeout(300)
def test_each_alert_fires_per_fleet(tmp_path: Path) -> None:
    """One Prometheus scrapes both: neither hides the other."""
    looks: dict[tuple[tuple[tuple[str, str], ...], int], list[str]] = defaultdict(list)
    for name, case in CASES.items():
        given = {of("a", series): values for series, values in case.fires.items()}
        given |= {of("b", series): values for series, values in case.silent.items()}
        looks[tuple(given.items()), case.minute].append(name)
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in given],
            "promql_expr_test": [
                {
                    "expr": f'count by (fleet) (ALERTS{{alertname="{name}",alertstate="firing"}})',
                    "eval_time": f"{minute}m",
                    "exp_samples": [{"labels": '{fleet="a"}', "value": 1}],
                }
                for name in names
            ],
        }
        for (given, minute), names in looks.items()
    ]
    run_cases(tmp_path, "1m", tests)


@needs_promtool
def test_links_lead_to_the_published_runbooks(tmp_path: Path) -> None:
    told = {
        "summary": "The queues of steps never drain.",
        "description": "Steps that wait now: 1. Does a worker serve their pool?",
        "runbook_url": "https://docs.example.org/fleet/StepsStay.md",
    }
    case = {
        "interval": "1m",
        "input_series": [{"series": of("a", "coordinator_steps_queued"), "values": "1x40"}],
        "external_labels": {"runbooks": "https://docs.example.org/fleet"},
        "alert_rule_test": [
            {
                "eval_time": "35m",
                "alertname": "StepsStay",
                "exp_alerts": [{"exp_labels": {"fleet": "a", "severity": "ticket"}, "exp_annotations": told}],
            }
        ],
    }
    run_cases(tmp_path, "1m", [case])


def of(fleet: str, series: str) -> str:
    """The series of one fleet, in promtool's notation."""
    name, _, labels = series.partition("{")
    return f'{name}{{fleet="{fleet}"{"," + labels if labels else "}"}'


def run_cases(folder: Path, interval: str, tests: list[dict[str, Any]]) -> None:
    """Lets promtool evaluate the rules on series, at an interval."""
    path = folder / "cases.yml"
    YAML(typ="safe").dump(
        {"rule_files": [str(RULES / file) for file in FILES], "evaluation_interval": interval, "tests": tests}, path
    )
    promtool("test", "rules", str(path))


@needs_promtool
def test_only_a_lasting_outage_pages(tmp_path: Path) -> None:
    """Half a minute without the store, as in a failover, is over before anybody can react."""

    def pages(minutes: str, alert: str, firing: int) -> dict[str, Any]:
        labels = f'alertname="{alert}",alertstate="firing",severity="page"'
        ever = f"count(count_over_time(ALERTS{{{labels}}}[{minutes}])) or vector(0)"
        return {"expr": ever, "eval_time": minutes, "exp_samples": [{"labels": "{}", "value": firing}]}

    def case(values: str, firing: int) -> dict[str, Any]:
        counters = (
            'coordinator_store_errors_total{kind="unavailable"}',
            'coordinator_shed_total{class="critical",reason="store_unavailable"}',
        )
        return {
            "interval": "15s",
            "input_series": [{"series": counter, "values": values} for counter in counters],
            "promql_expr_test": [pages("30m", alert, firing) for alert in ("StoreUnavailable", "CriticalCallsShed")],
        }

    run_cases(tmp_path, "15s", [case("0x40 1x80", 0), case("0x40 5 10x80", 0), case("0x40 5+5x20 105x60", 1)])


@needs_promtool
def test_growth_is_noticed_before_the_room_is_used_up(tmp_path: Path) -> None:
    """Also if another host measures the store from now on."""

    def case(alert: str, given: dict[str, str], firing: int) -> dict[str, Any]:
        fired = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
        return {
            "interval": "5m",
            "input_series": [{"series": series, "values": values} for series, values in given.items()],
            "promql_expr_test": [
                {"expr": fired, "eval_time": "7h", "exp_samples": [{"labels": "{}", "value": firing}]}
            ],
        }

    # One value in five minutes: in a day, 288 of these steps.
    moved = {f'{MEMORY}{{instance="a"}}': "0.4+0.002x40 0x50", f'{MEMORY}{{instance="b"}}': "0x40 0.48+0.002x50"}
    steady = {f'{MEMORY}{{instance="a"}}': "0.56x40 0x50", f'{MEMORY}{{instance="b"}}': "0x40 0.56x50"}
    cases = [
        case("StoreGrows", moved, 1),
        case("StoreGrows", steady, 0),
        case("StoreGrows", {MEMORY: "0.1+0.004x90"}, 0),
        case("StoreDiskFills", {DISK: "0.49-0.002x90"}, 1),
        case("StoreDiskFills", {DISK: "0.49-0.001x90"}, 0),
        case("StoreDiskFills", {DISK: "0.49x90"}, 0),
        # One step, as of an import; a fleet that is three hours old; and its first looks, before anybody has measured.
        case("StoreGrows", {MEMORY: "0.45x50 0.45+0.04x3 0.57x40"}, 0),
        case("StoreDiskFills", {DISK: "0.45x50 0.45-0.04x3 0.33x40"}, 0),
        case("StoreGrows", {MEMORY: "_x48 0.51+0.004x40"}, 0),
        case("StoreDiskFills", {DISK: "_x48 0.49-0.002x40"}, 0),
        case("StoreGrows", {MEMORY: "0x80 0.55x40"}, 0),
    ]
    run_cases(tmp_path, "5m", cases)


@needs_promtool
def test_missing_targets_are_noticed(tmp_path: Path) -> None:
    """Without pods, there is no target that could be down."""

    def case(given: dict[str, str], alert: str) -> dict[str, Any]:
        fired = 'count(ALERTS{alertname=~"FleetNotScraped|NoFrontEnds",alertstate="firing"}) by (alertname)'
        labels = f'{{alertname="{alert}"}}'
        return {
            "interval": "15s",
            "input_series": [{"series": series, "values": values} for series, values in given.items()],
            "promql_expr_test": [{"expr": fired, "eval_time": "5m", "exp_samples": [{"labels": labels, "value": 1}]}],
        }

    workers = {'up{job="coordinator"}': "1x40", 'coordinator_processes{role="worker"}': "1x40"}
    # One of two fleets is no longer found.
    one_left = {of("a", 'up{job="coordinator"}'): "1x4 stale", of("b", 'up{job="coordinator"}'): "1x40"}
    one_left |= {of(fleet, 'coordinator_processes{role="frontend"}'): "1x40" for fleet in "ab"}
    run_cases(
        tmp_path,
        "15s",
        [
            case({'up{job="others"}': "1x40"}, "FleetNotScraped"),
            case(one_left, "FleetNotScraped"),
            case(workers, "NoFrontEnds"),
        ],
    )
