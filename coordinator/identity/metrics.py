"""The metrics of verifying who callers are."""

from __future__ import annotations

from coordinator.metrics import OTHER, Counter, Gauge, Histogram, Label

SOURCE = Label("source", ("oidc_discovery", "jwks_uri", "jwks_path", "did"))
VERIFICATIONS = Counter(
    "coordinator_identity_verifications_total",
    "proofs",
    "Actors by the result of verifying their proof; verified_stale: with keys that could not be renewed in time.",
    (
        Label(
            "result",
            (
                "verified",
                "verified_stale",
                "absent",
                "unchecked",
                "rejected_crypto",
                "rejected_claims",
                "rejected_policy",
                "rejected_internal",
                "unavailable_network",
                OTHER,
            ),
        ),
    ),
    starts_in="frontend",
)
TRUST = Counter(
    "coordinator_identity_trust_total",
    "actors",
    "Whose identity counted, by degraded-mode policy: that of the proof, the actor's own claim, or none (refused).",
    (
        Label("policy", ("accept-cached", "accept-self-reported", "reject")),
        Label("whose", ("proof", "actor", "nobody")),
    ),
    starts_in="frontend",
)
SIGNATURE_SECONDS = Histogram(
    "coordinator_identity_verification_seconds",
    "seconds",
    "Time to verify a proof that the process had not seen before, waiting for keys included.",
    (),
    (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.1, 0.5, 1.0, 2.5),
    starts_in="frontend",
)
KEY_FETCHES = Counter(
    "coordinator_identity_key_fetches_total",
    "requests",
    "Requests for keys to their sources.",
    (SOURCE, Label("outcome", ("ok", "failed"))),
    starts_in="frontend",
)
KEY_AGE = Gauge(
    "coordinator_identity_key_age_seconds",
    "seconds",
    "Age of the oldest keys in use. Far above cache_ttl_seconds: they cannot be renewed.",
    (SOURCE,),
    merge="max",
)
STATE = Gauge(
    "coordinator_identity_state",
    "processes",
    "Front-ends and workers by the state of their keys. stale: some are old, unavailable: some are missing, off: not "
    "used.",
    (Label("state", ("off", "ok", "stale", "unavailable")),),
)
POLICY = Gauge(
    "coordinator_identity_policy",
    "processes",
    "Front-ends and workers by degraded-mode policy in force.",
    (Label("policy", ("accept-cached", "accept-self-reported", "reject")),),
)
TOKEN_FILE_READS = Counter(
    "coordinator_token_file_reads_total",
    "reads",
    "Reloads of a changed token file. refused: it was invalid, and the previous tokens stayed in force.",
    (Label("outcome", ("ok", "refused")),),
    starts_in="frontend",
)
