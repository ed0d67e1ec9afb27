"""The metrics of the store: its identity, calls to it, the shards of a cluster, and what its server uses."""

from __future__ import annotations

from coordinator.metrics import OTHER, Counter, Gauge, Histogram, Label
from coordinator.metrics.cells import Cell

SCRIPT = Label("script", limit=100)
STORE_CHANGED = Gauge(
    "coordinator_store_changed",
    "processes",
    "Processes that reject every call because the store is another one than the fleet had, or was flushed.",
)
STORE_WENT_BACK = Counter(
    "coordinator_store_went_back_total",
    "times",
    "How often a process found that the store had lost its last acknowledged writes (restore, failover, crash).",
)
FOREIGN_LIBRARIES = Counter(
    "coordinator_store_foreign_libraries_total",
    "libraries",
    "Libraries of functions for an older layout of the store, which a process has found there and deleted: a process "
    "of an older release still runs.",
    starts_in="frontend",
)
IDEMPOTENCY = Counter(
    "coordinator_idempotency_total",
    "requests",
    "Requests with a requestId. new: first seen, replay: answered again from the record, mismatch: the id was "
    "used before with other arguments.",
    (Label("result", ("new", "replay", "mismatch")),),
    starts_in="frontend",
)
SCRIPT_DURATION = Histogram(
    "coordinator_store_script_duration_seconds",
    "seconds",
    "Time from sending a script to having its reply, or to giving up.",
    (SCRIPT,),
    (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0),
)
SCRIPT_FAILURES = Counter(
    "coordinator_store_script_failures_total",
    "calls",
    "Scripts that did not do what they were asked for. refused: by a rule, error: no result "
    "(coordinator_store_errors_total says why).",
    (SCRIPT, Label("outcome", ("refused", "error"))),
    starts_in="frontend",
)
STORE_ERRORS = Counter(
    "coordinator_store_errors_total",
    "errors",
    "Store calls without a result. unavailable: no answer in time or no connection, full: no memory for writes, "
    "over_capacity: too many calls in flight, cancelled: the caller disconnected (what the server itself gives up, as "
    "at a deadline, is none), changed: it is not the store that the fleet had, defect: an internal error.",
    (Label("kind", ("unavailable", "changed", "full", "over_capacity", "cancelled", "defect", OTHER)),),
    starts_in="frontend",
)
SHARD = Label("shard", limit=32)
"""Shards are numbered from 0 in the order of their first slots (``fleet cluster status``)."""
SHARD_AWAY = Gauge(
    "coordinator_store_shard_away",
    "processes",
    "Front-ends that have no connection to each shard of a cluster.",
    (SHARD,),
)
SLOTS_UNCOVERED = Gauge(
    "coordinator_store_slots_uncovered",
    "slots",
    "Slots of a cluster that no node has, by the map of the front-end that sees most of them.",
    merge="max",
)
REDIRECTS = Counter(
    "coordinator_store_redirects_total",
    "calls",
    "Calls that a node of a cluster did not run because it does not have the slot. moved: another node has it, and was "
    "asked; moving: the slot is on its way, and the call was refused.",
    (Label("kind", ("moved", "moving")),),
)
MAPS = Counter("coordinator_store_maps_total", "maps", "How often processes have read which node has which slots.")
TORN = Counter(
    "coordinator_store_torn_scripts_total",
    "calls",
    "Scripts that a cluster ended half-way, because they touched keys that are elsewhere: a defect.",
)
_ASKED = "Asked every few seconds by one front-end of the fleet; others say 0."
MEMORY = Gauge(
    "coordinator_store_memory_bytes",
    "bytes",
    "Memory that the store uses; of a cluster that of the primary nearest to its limit, or without limits of the "
    f"largest. {_ASKED}",
    merge="max",
)
MEMORY_LIMIT = Gauge(
    "coordinator_store_memory_limit_bytes",
    "bytes",
    "How much memory that server may use (maxmemory): it takes no writes beyond; 0: no limit. Asked with "
    "coordinator_store_memory_bytes.",
    merge="max",
)
MEMORY_RATIO = Gauge(
    "coordinator_store_memory_ratio",
    "ratio",
    "How much of that limit is used; 0: there is none. Asked with coordinator_store_memory_bytes.",
    merge="max",
)
APPEND_FILE = Gauge(
    "coordinator_store_append_file_bytes",
    "bytes",
    "Size of the store's append-only file, which grows until it is rewritten; 0: there is none. Of a cluster the "
    "largest. Asked with coordinator_store_memory_bytes.",
    merge="max",
)
CLIENTS = Gauge(
    "coordinator_store_clients",
    "connections",
    "Connections of all its clients to the store; of a cluster to the primary with most. Asked with "
    "coordinator_store_memory_bytes.",
    merge="max",
)
DISK_FREE = Gauge(
    "coordinator_store_disk_free_bytes",
    "bytes",
    "What is left of the disk of an embedded store; other stores are none of this host's.",
    merge="max",
)
DISK_RATIO = Gauge(
    "coordinator_store_disk_free_ratio",
    "ratio",
    "The same as a share of that disk.",
    merge="max",
)
DRAINS = Gauge(
    "coordinator_process_drains",
    "drains",
    "Drains that operators have begun and not ended (`fleet drain`): of the fleet, a host or a process. Asked with "
    "coordinator_store_memory_bytes.",
    merge="max",
)

_ANSWERS = dict.fromkeys(("ok", "new", "replay", "stopped"), "ok") | dict.fromkeys(("refused", "mismatch"), "refused")
"""Outcome of a script -> how it is counted, if not as an error."""
_WITH_ID = frozenset({"new", "replay", "mismatch"})


def script_ended(script: str, seconds: float, outcome: str, project: str = "") -> None:
    """A script ended; the outcome is one of ``coordinator.store.outcomes.OUTCOMES``."""
    groups = SCRIPT_DURATION.cells.groups
    try:
        durations, counts = groups[script, outcome]
    except KeyError:
        durations, counts = groups[script, outcome] = SCRIPT_DURATION.labels(script), _counts(script, outcome)
    durations.observe(seconds)
    for count in counts:
        count.value += 1.0


def _counts(script: str, outcome: str) -> list[Cell]:
    answered = _ANSWERS.get(outcome, "error")
    counts = [] if answered == "ok" else [SCRIPT_FAILURES.labels(script, answered)]
    if answered == "error":
        counts.append(STORE_ERRORS.labels(outcome))
    if outcome in _WITH_ID:
        counts.append(IDEMPOTENCY.labels(outcome))
    return counts
