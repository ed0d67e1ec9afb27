"""What callers get."""

from __future__ import annotations

from deploy.grafana.panels import Dashboard, Panel, gauge, most, quantile, rate, share

SHED = "coordinator_shed_total"
CALLS = "coordinator_requests_total"
TIME = "coordinator_request_duration_seconds"

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
                    "Share of calls without a defect or a shed critical call; the objective is 99.9 %.",
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
                    "Calls shed to protect the fleet, per second.",
                    "reqps",
                    [(rate(SHED), "")],
                    "SheddingForLong",
                    "stat",
                    5,
                    5,
                ),
                Panel(
                    "Front-ends",
                    "Running front-end processes.",
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
                    "conflict: transient failures such as lost races; invalid: bad arguments; internal: defects.",
                    "reqps",
                    [(rate(CALLS, "outcome"), "{{outcome}}")],
                    "CallsFail",
                ),
                Panel(
                    "Duration by tool, p99",
                    "From a call's arguments to its answer; excludes the time that claims wait for an item (waitMs).",
                    "s",
                    [(quantile(0.99, TIME, "tool"), "{{tool}}")],
                    "ClaimsSlow",
                ),
                Panel(
                    "Fast path",
                    "Share of calls that the fast path answers; it falls when clients send unusual requests.",
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
                    "Unauthorized",
                    "Requests without a valid credential, per second.",
                    "reqps",
                    [(rate("coordinator_auth_refused_total", "reason"), "{{reason}}")],
                    "CallsFail",
                ),
                Panel(
                    "Tasks",
                    "Calls whose results clients ask for later (MCP tasks), per minute, by tool.",
                    "short",
                    [(f"60 * {rate('coordinator_tasks_total', 'tool, event')}", "{{tool}} {{event}}")],
                    "CallsFail",
                ),
            ),
        ),
        (
            "Change feed",
            (
                Panel(
                    "Listeners",
                    "Event streams, requests that wait for events, and subscriptions of MCP clients, now.",
                    "short",
                    [
                        (gauge("coordinator_feed_listeners"), "feed"),
                        (gauge("coordinator_subscriptions"), "subscriptions"),
                    ],
                    "FeedLate",
                ),
                Panel(
                    "Told",
                    "Events given to listeners, and notifications to subscriptions, per second.",
                    "ops",
                    [
                        (rate("coordinator_feed_deliveries_total"), "events"),
                        (rate("coordinator_subscription_notifications_total"), "notifications"),
                    ],
                    "FeedLate",
                ),
                Panel(
                    "From commit to listeners, p99",
                    "How late events are passed on, by the clocks of Redis and of the front-end.",
                    "s",
                    [(quantile(0.99, "coordinator_feed_lag_seconds"), "p99")],
                    "FeedLate",
                ),
                Panel(
                    "Cut off",
                    "Listeners ended by the server, per minute. slow: they take less than comes; they can go on.",
                    "short",
                    [(f"60 * {rate('coordinator_feed_cut_total', 'reason')}", "{{reason}}")],
                    "FeedLate",
                ),
                Panel(
                    "Gaps",
                    "How often events were missing, per minute; those who miss them are told.",
                    "short",
                    [
                        (f"60 * {rate('coordinator_feed_gaps_total', 'reason')}", "{{reason}}"),
                        (f"60 * {rate('coordinator_webhook_gaps_total', 'reason')}", "webhooks: {{reason}}"),
                    ],
                    "EventsTrimmed",
                ),
                Panel(
                    "Waiting reads",
                    "Calls that wait until what they read has come to a state, now.",
                    "short",
                    [(gauge("coordinator_reads_waiting"), "waiting")],
                    "FeedLate",
                ),
                Panel(
                    "Ends of waiting reads",
                    "How they end, and what is read for them, per second. time: nothing has happened for 10 s.",
                    "ops",
                    [
                        (rate("coordinator_waits_ended_total", "outcome"), "{{outcome}}"),
                        (rate("coordinator_wait_reads_total", "reason"), "read: {{reason}}"),
                    ],
                    "FeedLate",
                ),
            ),
        ),
        (
            "Webhooks",
            (
                Panel(
                    "Webhooks by state",
                    "failing: tried again; disabled and unusable: nothing is sent.",
                    "short",
                    [(most("coordinator_webhooks", "state"), "{{state}}")],
                    "WebhookDisabled",
                ),
                Panel(
                    "Attempts",
                    "Attempts at a delivery per second, by how they ended.",
                    "reqps",
                    [(rate("coordinator_webhook_attempts_total", "outcome"), "{{outcome}}")],
                    "WebhookFails",
                ),
                Panel(
                    "Attempts, p95",
                    "How long receivers take to answer; they have 15 s.",
                    "s",
                    [(quantile(0.95, "coordinator_webhook_attempt_seconds"), "p95")],
                    "WebhookFails",
                ),
                Panel(
                    "Oldest message that waits",
                    "Of webhooks that fail; 0: nothing waits for another attempt.",
                    "s",
                    [(most("coordinator_webhook_lag_seconds", "webhook"), "{{webhook}}")],
                    "WebhookFails",
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
                    "How late timers run: time in which the event loop is blocked.",
                    "s",
                    [(quantile(0.99, "coordinator_event_loop_lag_seconds", "role"), "{{role}}")],
                    "EventLoopLate",
                ),
                Panel(
                    "Calls by process",
                    "How evenly the load is balanced.",
                    "reqps",
                    [(rate("coordinator_slot_requests_total", "instance, slot"), "{{instance}} {{slot}}")],
                    "EventLoopLate",
                ),
                Panel(
                    "Restarts",
                    "Process restarts per minute.",
                    "short",
                    [(f"60 * {rate('coordinator_process_restarts_total', 'role, cause')}", "{{role}} by {{cause}}")],
                    "ProcessesRestart",
                ),
                Panel(
                    "Drains",
                    "Drains of the fleet, of hosts and of processes that nobody has ended.",
                    "short",
                    [(most("coordinator_process_drains"), "drains")],
                    "DrainForgotten",
                ),
                Panel(
                    "Releases",
                    "Hosts by the release and the Python that run there.",
                    "short",
                    [(gauge("coordinator_build_info", "version, python"), "{{version}} on {{python}}")],
                    "ProcessesRestart",
                ),
                Panel(
                    "Connections and requests",
                    "Client connections, and requests being answered; also those that wait, and streams.",
                    "short",
                    [
                        (gauge("coordinator_connections", "instance"), "{{instance}}: connections"),
                        (gauge("coordinator_inflight", "instance"), "{{instance}}: requests"),
                    ],
                    "EventLoopLate",
                ),
            ),
        ),
    ),
)
