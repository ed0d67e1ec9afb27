"""What the store does."""

from __future__ import annotations

from deploy.grafana.panels import Dashboard, Panel, gauge, most, quantile, rate

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
            "Room",
            (
                Panel(
                    "Memory",
                    "What the store uses, and may use; 0: no limit. Of a cluster the primary nearest to its limit.",
                    "bytes",
                    [
                        (most("coordinator_store_memory_bytes"), "used"),
                        (most("coordinator_store_memory_limit_bytes"), "limit"),
                    ],
                    "StoreGrows",
                ),
                Panel(
                    "Memory, share of the limit",
                    "From 100 % on, no writes are taken; 0: there is no limit.",
                    "percentunit",
                    [(most("coordinator_store_memory_ratio"), "used")],
                    "StoreGrows",
                ),
                Panel(
                    "Append-only file",
                    "Its size; it grows until the store rewrites it.",
                    "bytes",
                    [(most("coordinator_store_append_file_bytes"), "file")],
                    "StoreDiskFills",
                ),
                Panel(
                    "Disk",
                    "What is left of the disk of an embedded store.",
                    "bytes",
                    [(most("coordinator_store_disk_free_bytes", "instance"), "{{instance}}")],
                    "StoreDiskFills",
                ),
                Panel(
                    "Disk, free share",
                    "The same as a share of the disk: an embedded store ends when it cannot write.",
                    "percentunit",
                    [(most("coordinator_store_disk_free_ratio", "instance"), "{{instance}}")],
                    "StoreDiskFills",
                ),
                Panel(
                    "Clients",
                    "Connections to the store, of all its clients.",
                    "short",
                    [(most("coordinator_store_clients"), "clients")],
                    "StoreUnavailable",
                ),
                Panel(
                    "Another store",
                    "Processes that refuse calls, as the store is not the fleet's.",
                    "short",
                    [(gauge("coordinator_store_changed"), "processes")],
                    "StoreChanged",
                ),
                Panel(
                    "Went back",
                    "How often processes found that the store had lost its last writes, per minute.",
                    "short",
                    [(f"60 * {rate('coordinator_store_went_back_total')}", "times")],
                    "StoreWentBack",
                ),
                Panel(
                    "Functions of an older layout",
                    "Libraries that processes of older releases have loaded, and that were deleted, per minute.",
                    "short",
                    [(f"60 * {rate('coordinator_store_foreign_libraries_total')}", "libraries")],
                    "ForeignFunctions",
                ),
            ),
        ),
        (
            "Cluster",
            (
                Panel(
                    "Shards without connection",
                    "Front-ends without a connection to each shard; nothing without a cluster, as in all of this row.",
                    "short",
                    [(gauge("coordinator_store_shard_away", "shard"), "shard {{shard}}")],
                    "StoreShardDown",
                ),
                Panel(
                    "Slots without a node",
                    "Calls for the projects there fail.",
                    "short",
                    [(most("coordinator_store_slots_uncovered"), "slots")],
                    "StoreSlotsUncovered",
                ),
                Panel(
                    "Redirected calls",
                    "moved: another node has the slot, and was asked; moving: it is on its way, the call was refused.",
                    "ops",
                    [(rate("coordinator_store_redirects_total", "kind"), "{{kind}}")],
                    "StoreRedirects",
                ),
                Panel(
                    "Maps and torn scripts",
                    "Per minute: maps of the slots that were read, and scripts ended half-way (a defect).",
                    "short",
                    [
                        (f"60 * {rate('coordinator_store_maps_total')}", "maps"),
                        (f"60 * {rate('coordinator_store_torn_scripts_total')}", "torn scripts"),
                    ],
                    "StoreRedirects",
                ),
            ),
        ),
        (
            "Settings",
            (
                Panel(
                    "Settings in force",
                    "Versions in force in front-ends and workers: two lines at 1 mean that some differ.",
                    "short",
                    [(most("coordinator_config_info", "version"), "{{version}}")],
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
