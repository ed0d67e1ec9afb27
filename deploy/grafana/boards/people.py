"""People who answer and steer, and how the fleet knows who somebody is."""

from __future__ import annotations

from deploy.grafana.panels import Dashboard, Panel, gauge, most, quantile, rate

FRAMES = "coordinator_console_frames_total"

PEOPLE = Dashboard(
    "fleet-people",
    "Fleet: people and identity",
    (
        (
            "What waits for people",
            (
                Panel(
                    "Open approvals",
                    "Decisions that instances of the gateway wait for.",
                    "short",
                    [(most("coordinator_open_approvals"), "approvals")],
                    "ApprovalsWait",
                ),
                Panel(
                    "Oldest approval",
                    "For how long the first of the open approvals has waited.",
                    "s",
                    [(most("coordinator_oldest_approval_age_seconds"), "age")],
                    "ApprovalsWait",
                ),
                Panel(
                    "Questions",
                    "Questions asked through clients (elicitation), and what came of them, per minute.",
                    "short",
                    [(f"60 * {rate('coordinator_questions_total', 'event')}", "{{event}}")],
                    "ApprovalsWait",
                ),
            ),
        ),
        (
            "Console",
            (
                Panel(
                    "Visible tabs",
                    "Tabs of the console that people look at now.",
                    "short",
                    [(gauge("coordinator_console_tabs", "instance"), "{{instance}}")],
                    "FeedLate",
                ),
                Panel(
                    "Frames",
                    "Changes sent to these tabs, per second.",
                    "ops",
                    [(rate(FRAMES), "frames")],
                    "FeedLate",
                ),
                Panel(
                    "Bytes of frames",
                    "What these changes take of the network.",
                    "Bps",
                    [(rate("coordinator_console_frame_bytes_total"), "frames")],
                    "FeedLate",
                ),
                Panel(
                    "Shed reads and gaps",
                    "Per minute: reads of pages that were shed, and tabs told to look at everything.",
                    "short",
                    [
                        (f"60 * {rate('coordinator_console_shed_total')}", "shed"),
                        (f"60 * {rate('coordinator_console_gaps_total')}", "gaps"),
                    ],
                    "SheddingForLong",
                ),
                Panel(
                    "Actions of people",
                    "What people do in the console, per minute; refused: as the rules say; failed: otherwise.",
                    "short",
                    [
                        (
                            f"60 * {rate('coordinator_console_actions_total', 'action, outcome')}",
                            "{{action}} {{outcome}}",
                        )
                    ],
                    "CallsFail",
                ),
            ),
        ),
        (
            "Identity",
            (
                Panel(
                    "Verified actors",
                    "Outcomes of actors' proofs, per second.",
                    "reqps",
                    [(rate("coordinator_identity_verifications_total", "result"), "{{result}}")],
                    "IdentityDegraded",
                ),
                Panel(
                    "Whose word counts",
                    "By the degraded-mode policy: the proof's, the actor's own, or nobody's (refused), per second.",
                    "reqps",
                    [(rate("coordinator_identity_trust_total", "policy, whose"), "{{policy}}: {{whose}}")],
                    "IdentityDegraded",
                ),
                Panel(
                    "Verification, p99",
                    "How long proofs take that a process has not seen before, with the wait for keys.",
                    "s",
                    [(quantile(0.99, "coordinator_identity_verification_seconds"), "p99")],
                    "IdentityDegraded",
                ),
                Panel(
                    "Requests for keys",
                    "To their sources, per minute.",
                    "short",
                    [
                        (
                            f"60 * {rate('coordinator_identity_key_fetches_total', 'source, outcome')}",
                            "{{source}} {{outcome}}",
                        )
                    ],
                    "KeysOld",
                ),
                Panel(
                    "Age of keys",
                    "Age of the oldest keys in use; it grows while they cannot be refreshed.",
                    "s",
                    [(most("coordinator_identity_key_age_seconds", "source"), "{{source}}")],
                    "KeysOld",
                ),
                Panel(
                    "State of keys",
                    "Processes by it. stale: some are old; unavailable: some are missing; off: not used.",
                    "short",
                    [(gauge("coordinator_identity_state", "state"), "{{state}}")],
                    "IdentityDegraded",
                ),
                Panel(
                    "Policy",
                    "Processes by the degraded-mode policy in force; during a reload there may be two.",
                    "short",
                    [(gauge("coordinator_identity_policy", "policy"), "{{policy}}")],
                    "IdentityDegraded",
                ),
                Panel(
                    "Refused session tokens",
                    "Session tokens and checkpoint handles that could not be used, per minute, by why.",
                    "short",
                    [(f"60 * {rate('coordinator_session_tokens_refused_total', 'reason')}", "{{reason}}")],
                    "CallsFail",
                ),
                Panel(
                    "Token files",
                    "Reloads of a changed token file, per minute. refused: the tokens of before stay in force.",
                    "short",
                    [(f"60 * {rate('coordinator_token_file_reads_total', 'outcome')}", "{{outcome}}")],
                    "ReloadRefused",
                ),
            ),
        ),
    ),
)
