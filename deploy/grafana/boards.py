"""What the dashboards show, from what callers feel to what causes it.

Every panel has a unit, says what it shows and names the page that says what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

RATE = "$__rate_interval"
HOST = 'instance=~"$instance"'


class Panel(NamedTuple):
    """One panel; ``queries`` are expressions and their legends."""

    title: str
    shows: str
    unit: str
    queries: Sequence[tuple[str, str]]
    page: str
    """The runbook that helps when this looks wrong."""
    kind: str = "lines"
    width: int = 8
    height: int = 7


class Dashboard(NamedTuple):
    """Rows of panels."""

    uid: str
    title: str
    rows: Sequence[tuple[str, Sequence[Panel]]]


def rate(metric: str, by: str = "", **labels: str) -> str:
    """The rate of a counter, summed by labels."""
    wanted = ",".join([HOST, *(f'{name}="{value}"' for name, value in labels.items())])
    summed = f"sum by ({by})" if by else "sum"
    return f"{summed} (rate({metric}{{{wanted}}}[{RATE}]))"


def quantile(share: float, metric: str, by: str = "", **labels: str) -> str:
    """A quantile of a histogram."""
    return f"histogram_quantile({share}, {rate(metric + '_bucket', f'le, {by}' if by else 'le', **labels)})"


def gauge(metric: str, by: str = "", **labels: str) -> str:
    """A gauge, summed by labels."""
    wanted = ",".join([HOST, *(f'{name}="{value}"' for name, value in labels.items())])
    return f"sum by ({by}) ({metric}{{{wanted}}})" if by else f"sum ({metric}{{{wanted}}})"


def share(part: str, whole: str) -> str:
    """How much of the whole a part is."""
    return f"{part} / ({whole} > 0)"


CALLS = "coordinator_requests_total"
TIME = "coordinator_request_duration_seconds"
SHED = "coordinator_shed_total"
CLAIMS = "coordinator_claims_total"
HOLD = "coordinator_claim_hold_seconds"
LOSERS = "coordinator_claim_losers"
CONFLICTS = "coordinator_claim_conflicts_total"
SCRIPT = "coordinator_store_script_duration_seconds"
STEPS = "coordinator_steps_total"

SERVICE = Dashboard(
    "fleet-service",
    "Fleet: service",
    (
        (
            "Are agents served?",
            (
                Panel(
                    "Calls",
                    "Tool calls answered per second.",
                    "reqps",
                    [(rate(CALLS), "")],
                    "FleetNotScraped",
                    "stat",
                    4,
                    5,
                ),
                Panel(
                    "Served",
                    "Calls that did not fail by a fault of ours, no critical one shed; the objective is 99.9 %.",
                    "percentunit",
                    [
                        (
                            f"1 - ({rate(CALLS, outcome='internal')} + {rate(SHED, **{'class': 'critical'})}) / "
                            f"({rate(CALLS)} > 0)",
                            "",
                        )
                    ],
                    "CallsFail",
                    "stat",
                    5,
                    5,
                ),
                Panel(
                    "Claims within 100 ms",
                    "The objective is 99 %.",
                    "percentunit",
                    [
                        (
                            share(
                                rate(TIME + "_bucket", tool="claim_item", le="0.1"),
                                rate(TIME + "_count", tool="claim_item"),
                            ),
                            "",
                        )
                    ],
                    "ClaimsSlow",
                    "stat",
                    5,
                    5,
                ),
                Panel(
                    "Shed",
                    "Calls turned away to protect the fleet, per second.",
                    "reqps",
                    [(rate(SHED), "")],
                    "SheddingForLong",
                    "stat",
                    5,
                    5,
                ),
                Panel(
                    "Front-ends",
                    "Front-end processes that run.",
                    "short",
                    [(gauge("coordinator_processes", role="frontend"), "")],
                    "NoFrontEnds",
                    "stat",
                    5,
                    5,
                ),
            ),
        ),
        (
            "Rate, errors, duration",
            (
                Panel(
                    "Calls by tool", "Tool calls per second.", "reqps", [(rate(CALLS, "tool"), "{{tool}}")], "CallsFail"
                ),
                Panel(
                    "Calls by outcome",
                    "conflict: transient failures such as lost races; invalid: wrong arguments; internal: defects.",
                    "reqps",
                    [(rate(CALLS, "outcome"), "{{outcome}}")],
                    "CallsFail",
                ),
                Panel(
                    "Duration by tool, p99",
                    "From a call's arguments to its answer; without what claims waited for an item (waitMs).",
                    "s",
                    [(quantile(0.99, TIME, "tool"), "{{tool}}")],
                    "ClaimsSlow",
                ),
                Panel(
                    "Quick path",
                    "Share of calls that the quick path answers; it falls when clients send unusual requests.",
                    "percentunit",
                    [
                        (
                            share(
                                rate("coordinator_fast_path_total", result="hit"), rate("coordinator_fast_path_total")
                            ),
                            "hits",
                        )
                    ],
                    "ClaimsSlow",
                ),
                Panel(
                    "Not let in",
                    "Requests without a credential that counts, per second.",
                    "reqps",
                    [(rate("coordinator_auth_refused_total", "reason"), "{{reason}}")],
                    "CallsFail",
                ),
                Panel(
                    "Verified actors",
                    "What became of actors' proofs, per second.",
                    "reqps",
                    [(rate("coordinator_identity_verifications_total", "result"), "{{result}}")],
                    "IdentityDegraded",
                ),
            ),
        ),
        (
            "Processes",
            (
                Panel(
                    "CPU",
                    "Cores used by each process.",
                    "short",
                    [(rate("coordinator_process_cpu_seconds_total", "instance, slot"), "{{instance}} {{slot}}")],
                    "EventLoopLate",
                ),
                Panel(
                    "Memory",
                    "Resident memory of each process.",
                    "bytes",
                    [(gauge("coordinator_process_resident_memory_bytes", "instance, slot"), "{{instance}} {{slot}}")],
                    "ProcessesRestart",
                ),
                Panel(
                    "Event loop, p99",
                    "How late timers run: time in which a process answered nobody.",
                    "s",
                    [(quantile(0.99, "coordinator_event_loop_lag_seconds", "role"), "{{role}}")],
                    "EventLoopLate",
                ),
                Panel(
                    "Calls by process",
                    "How evenly load spreads.",
                    "reqps",
                    [(rate("coordinator_slot_requests_total", "instance, slot"), "{{instance}} {{slot}}")],
                    "EventLoopLate",
                ),
                Panel(
                    "Restarts",
                    "Processes started again per minute.",
                    "short",
                    [(f"60 * {rate('coordinator_process_restarts_total', 'role, cause')}", "{{role}} by {{cause}}")],
                    "ProcessesRestart",
                ),
                Panel(
                    "Connections",
                    "Client connections open now.",
                    "short",
                    [(gauge("coordinator_connections", "instance"), "{{instance}}")],
                    "EventLoopLate",
                ),
            ),
        ),
    ),
)

CONTENTION = Dashboard(
    "fleet-contention",
    "Fleet: contention and shedding",
    (
        (
            "Admission",
            (
                Panel(
                    "Limit and calls at work",
                    "The limit falls when the store slows down; with calls at work near it others wait or are shed.",
                    "short",
                    [
                        (gauge("coordinator_concurrency_limit"), "limit"),
                        (gauge("coordinator_inflight"), "at work"),
                        (gauge("coordinator_admission_waiting"), "waiting"),
                    ],
                    "SheddingForLong",
                ),
                Panel(
                    "Shed by class",
                    "The least critical are to be shed first, critical ones never.",
                    "reqps",
                    [(rate(SHED, "class"), "{{class}}")],
                    "CriticalCallsShed",
                ),
                Panel(
                    "Shed by reason",
                    "actor_quota: a few agents ask for too much; queue_timeout: capacity.",
                    "reqps",
                    [(rate(SHED, "reason"), "{{reason}}")],
                    "SheddingForLong",
                ),
                Panel(
                    "Waiting, p99",
                    "Time that calls waited for room before they were let in.",
                    "s",
                    [(quantile(0.99, "coordinator_admission_queue_seconds", "class"), "{{class}}")],
                    "SheddingForLong",
                ),
                Panel(
                    "Saturation",
                    "Calls at work by the limit, of the busiest front-end of each host.",
                    "percentunit",
                    [(f"max by (instance) (coordinator_saturation{{{HOST}}})", "{{instance}}")],
                    "SheddingForLong",
                ),
                Panel(
                    "Breakers",
                    "Front-ends by the state of their circuit breaker over the store.",
                    "short",
                    [(gauge("coordinator_store_breaker", "state"), "{{state}}")],
                    "StoreUnavailable",
                ),
            ),
        ),
        (
            "Claims",
            (
                Panel(
                    "Claims by outcome",
                    "Claim attempts per second.",
                    "reqps",
                    [(rate(CLAIMS, "outcome"), "{{outcome}}")],
                    "HighContention",
                ),
                Panel(
                    "Losers per winner",
                    "Claims of items that others hold, for each claim that succeeded.",
                    "short",
                    [(share(rate(CONFLICTS, kind="busy"), rate(CLAIMS, outcome="success")), "losers")],
                    "HighContention",
                ),
                Panel(
                    "Losers per claim",
                    "Claims that have ended, by how many claims of others were in vain meanwhile; best none.",
                    "short",
                    [(rate(LOSERS + "_bucket", "le"), "{{le}}")],
                    "HighContention",
                    "heat",
                ),
                Panel(
                    "Begun again",
                    "Operations of several scripts that began again, as what they had read had changed meanwhile.",
                    "ops",
                    [(rate("coordinator_operations_restarted_total", "operation"), "{{operation}}")],
                    "HighContention",
                ),
                Panel(
                    "Collisions",
                    "stale_fence: agents that go on with claims that they have lost.",
                    "reqps",
                    [(rate(CONFLICTS, "kind"), "{{kind}}")],
                    "StaleFences",
                ),
                Panel(
                    "Request ids",
                    "replay: calls that were repeated and answered from the record.",
                    "reqps",
                    [(rate("coordinator_idempotency_total", "result"), "{{result}}")],
                    "RequestIdsReused",
                ),
                Panel(
                    "Held, p90",
                    "How long claims were held, by how they ended; expired: nobody renewed them.",
                    "s",
                    [(quantile(0.9, HOLD, "end"), "{{end}}")],
                    "ClaimsExpire",
                ),
                Panel(
                    "Claims ended",
                    "completed: the item was finished; released: given back or let go for another; expired.",
                    "ops",
                    [(rate(HOLD + "_count", "end"), "{{end}}")],
                    "ClaimsExpire",
                ),
            ),
        ),
        (
            "Work items",
            (
                Panel(
                    "Items by role",
                    "Of all projects; terminal ones stay until they are deleted.",
                    "short",
                    [(f"max by (role) (coordinator_items{{{HOST}}})", "{{role}}")],
                    "ItemsWait",
                ),
                Panel(
                    "Oldest ready item",
                    "Age of the oldest item in the queue that anybody could claim: the best sign of too few agents.",
                    "s",
                    [(f"max (coordinator_oldest_ready_age_seconds{{{HOST}}})", "age")],
                    "ItemsWait",
                ),
                Panel(
                    "Abandoned items",
                    "Left in the middle by their agent, and not taken over yet.",
                    "short",
                    [(f"max (coordinator_abandoned_items{{{HOST}}})", "items")],
                    "ItemsAbandoned",
                ),
                Panel(
                    "Waiting agents",
                    "Claims that wait for an item (waitMs); where items are ready, their selectors do not match.",
                    "short",
                    [(gauge("coordinator_agents_waiting", "instance"), "{{instance}}")],
                    "ItemsWait",
                ),
                Panel(
                    "Waited, p90",
                    "How long claims waited for an item, by how that ended; in order of arrival for each selector.",
                    "s",
                    [(quantile(0.9, "coordinator_claim_wait_seconds", "end"), "{{end}}")],
                    "ItemsWait",
                ),
            ),
        ),
    ),
)

STORE = Dashboard(
    "fleet-store",
    "Fleet: store",
    (
        (
            "Scripts",
            (
                Panel(
                    "All scripts",
                    "How long scripts take, from sending one to having its reply.",
                    "s",
                    [(rate(SCRIPT + "_bucket", "le"), "{{le}}")],
                    "StoreSlow",
                    "heat",
                    12,
                ),
                Panel(
                    "Scripts, p99",
                    "The slowest scripts.",
                    "s",
                    [(quantile(0.99, SCRIPT, "script"), "{{script}}")],
                    "StoreSlow",
                    "lines",
                    12,
                ),
                Panel(
                    "Scripts per second",
                    "By script.",
                    "ops",
                    [(rate(SCRIPT + "_count", "script"), "{{script}}")],
                    "StoreSlow",
                ),
                Panel(
                    "Not done",
                    "Scripts by why. refused: by a rule; error: no result.",
                    "ops",
                    [(rate("coordinator_store_script_failures_total", "outcome"), "{{outcome}}")],
                    "HighContention",
                ),
                Panel(
                    "Errors",
                    "Calls to the store without a result.",
                    "ops",
                    [(rate("coordinator_store_errors_total", "kind"), "{{kind}}")],
                    "StoreUnavailable",
                ),
            ),
        ),
        (
            "Keys and settings",
            (
                Panel(
                    "Age of keys",
                    "Of the oldest keys in use; they cannot be renewed when this grows.",
                    "s",
                    [(f"max by (source) (coordinator_identity_key_age_seconds{{{HOST}}})", "{{source}}")],
                    "KeysOld",
                ),
                Panel(
                    "Settings in force",
                    "Versions that front-ends and workers go by: two lines at 1 mean that some differ.",
                    "short",
                    [(f"max by (version) (coordinator_config_info{{{HOST}}})", "{{version}}")],
                    "ConfigsDiffer",
                ),
                Panel(
                    "Reloads",
                    "refused: the file was wrong, the old settings stay.",
                    "short",
                    [(f"60 * {rate('coordinator_config_reloads_total', 'outcome')}", "{{outcome}}")],
                    "ReloadRefused",
                ),
            ),
        ),
    ),
)

WORKFLOWS = Dashboard(
    "fleet-workflows",
    "Fleet: workflows and workers",
    (
        (
            "Workflows",
            (
                Panel(
                    "Runs ended",
                    "Flows and other runs of steps, per minute.",
                    "short",
                    [(f"60 * {rate('coordinator_runs_ended_total', 'kind, status')}", "{{kind}} {{status}}")],
                    "LeasesLost",
                ),
                Panel(
                    "Steps by outcome",
                    "Attempts per second.",
                    "ops",
                    [(rate(STEPS, "outcome"), "{{outcome}}")],
                    "LeasesLost",
                ),
                Panel(
                    "Checkpoints",
                    "Of workflow sessions: yielded and answered, per minute.",
                    "short",
                    [(f"60 * {rate('coordinator_session_checkpoints_total', 'outcome')}", "{{outcome}}")],
                    "CallsFail",
                ),
            ),
        ),
        (
            "Steps",
            (
                Panel(
                    "Waiting steps",
                    "Steps that wait for a worker.",
                    "short",
                    [(f"max (coordinator_steps_queued{{{HOST}}})", "waiting")],
                    "StepsStay",
                ),
                Panel(
                    "Wait, p95",
                    "From a step being ready to a worker having it.",
                    "s",
                    [(quantile(0.95, "coordinator_step_wait_seconds"), "p95")],
                    "StepsWait",
                ),
                Panel(
                    "Duration, p95",
                    "How long attempts take in their worker.",
                    "s",
                    [(quantile(0.95, "coordinator_step_duration_seconds"), "p95")],
                    "StepsWait",
                ),
                Panel(
                    "In hand",
                    "Steps that each worker executes now.",
                    "short",
                    [(gauge("coordinator_steps_in_hand", "instance, slot"), "{{instance}} {{slot}}")],
                    "StepsWait",
                ),
                Panel(
                    "Lost",
                    "Leases that ran out, late reports and jobs that had vanished, per minute.",
                    "short",
                    [
                        (f"60 * {rate('coordinator_step_leases_lost_total')}", "leases"),
                        (f"60 * {rate('coordinator_step_reports_refused_total')}", "late reports"),
                        (f"60 * {rate('coordinator_step_jobs_restored_total')}", "restored jobs"),
                    ],
                    "LeasesLost",
                ),
                Panel(
                    "Workers",
                    "Worker processes that run.",
                    "short",
                    [(gauge("coordinator_processes", role="worker"), "workers")],
                    "NoWorkers",
                ),
            ),
        ),
        (
            "Gateway",
            (
                Panel(
                    "Submits by result",
                    "Transitions asked for per second; STALE_WORKFLOW_VERSION: somebody else was faster.",
                    "ops",
                    [(rate("coordinator_gateway_submits_total", "result"), "{{result}}")],
                    "CallsFail",
                ),
                Panel(
                    "Executors, p95",
                    "How long attempts of executors take, by kind.",
                    "s",
                    [(quantile(0.95, "coordinator_gateway_executor_seconds", "kind"), "{{kind}}")],
                    "StepsWait",
                ),
                Panel(
                    "Servers unavailable",
                    "Downstream servers that tools are imported from and that did not answer when last asked.",
                    "short",
                    [(f"max (coordinator_gateway_servers_unavailable{{{HOST}}})", "servers")],
                    "CallsFail",
                ),
            ),
        ),
    ),
)

ALL = (SERVICE, CONTENTION, STORE, WORKFLOWS)
