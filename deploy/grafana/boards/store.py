"""What the store does."""

from __future__ import annotations

from deploy.grafana.panels import HOST, Dashboard, Panel, quantile, rate

SCRIPT = "coordinator_store_script_duration_seconds"

STORE = Dashboard(
    "fleet-store",
    "Fleet: store",
    (
        (
            "Scripts",
            (
                Panel(
                    "All scripts",
                    "Duration of scripts, from sending to reply.",
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
                    "Scripts without effect",
                    "By reason. refused: by a rule; error: no result.",
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
                    "Age of the oldest keys in use; it grows while they cannot be refreshed.",
                    "s",
                    [(f"max by (source) (coordinator_identity_key_age_seconds{{{HOST}}})", "{{source}}")],
                    "KeysOld",
                ),
                Panel(
                    "Settings in force",
                    "Versions in force in front-ends and workers: two lines at 1 mean that some differ.",
                    "short",
                    [(f"max by (version) (coordinator_config_info{{{HOST}}})", "{{version}}")],
                    "ConfigsDiffer",
                ),
                Panel(
                    "Reloads",
                    "refused: the file was invalid, the old settings stay.",
                    "short",
                    [(f"60 * {rate('coordinator_config_reloads_total', 'outcome')}", "{{outcome}}")],
                    "ReloadRefused",
                ),
            ),
        ),
    ),
)
