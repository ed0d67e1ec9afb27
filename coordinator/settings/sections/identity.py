"""The section ``actor_authentication``: how proofs are verified, and which identity counts if that fails.

``VerifierSettings`` is used wherever tokens are verified, also in ``auth``. ``coordinator.identity`` applies the
settings; its README.md says what each policy and outcome means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Struct

from coordinator.settings.paths import Locate
from coordinator.settings.problems import KeyPath
from coordinator.settings.setting import setting

Policy = Literal["accept-cached", "accept-self-reported", "reject"]
POLICIES: tuple[Policy, ...] = ("accept-cached", "accept-self-reported", "reject")
POLICY_VARIABLE = "DEGRADED_MODE_POLICY"
BASE_VARIABLE = "AGENT_CONFIG_DIR"
"""The variable with the directory that a relative ``jwks_path`` starts at."""

STATIC_SOURCES = ("oidc_discovery", "jwks_uri", "jwks_path")
DID_SOURCES = ("did_allowlist", "did_pattern")

Algorithm = Literal["EdDSA", "ES256", "ES384", "ES512", "RS256", "RS384", "RS512"]
_DID_HOST = r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*(%3[Aa]\d{1,5})?"
_DID_PATTERN = re.compile(r"did:web:(?P<host>[^:]+)(:[A-Za-z0-9._~%*-]*)*")
_OPEN_HOST = re.compile(r"(\*[A-Za-z0-9-]*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*(%3[Aa](\d{1,5}|\*))?")

_URL: dict[str, object] = {
    "allowed": "empty or an https:// (or http://) URL without a user name and without '#'",
    "reload": True,
}

Url = Annotated[str, setting(pattern=r"^(https?://[^\s/@?#]+([/?][^\s@#]*)?)?\Z")]
Did = Annotated[
    str,
    setting(
        pattern=rf"^did:web:{_DID_HOST}(:[A-Za-z0-9._~%-]+)*\Z",
        allowed="a did:web identifier such as did:web:agents.example.org:worker",
    ),
]


class _Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of the structs in this module."""


class VerifierSettings(_Section, frozen=True, kw_only=True):
    """A verifier of tokens: where its keys come from, and which tokens it accepts.

    The keys come either from ``oidc_discovery``, ``jwks_uri`` and ``jwks_path`` (the keys of all that are given are
    merged), or from the issuers that ``did_allowlist`` and ``did_pattern`` name.
    """

    type: Annotated[
        Literal["noop", "jwks"],
        setting(
            "noop checks nothing: every actor is 'unchecked'. jwks verifies the proof, a signed JWT, with the keys "
            "of the sources below.",
            reload=True,
        ),
    ] = "noop"
    oidc_discovery: Annotated[
        Url,
        setting(
            "An OpenID Connect discovery document, which names the key set and the issuer. Explicit values "
            "of jwks_uri and issuer take precedence.",
            **_URL,
        ),
    ] = ""
    jwks_uri: Annotated[Url, setting("A key set (JWKS) to fetch.", **_URL)] = ""
    jwks_path: Annotated[
        str,
        setting(
            "A key set in a local file, read again when it changes. A relative path starts at AGENT_CONFIG_DIR, "
            "else at the directory of the config file.",
            reload=True,
            allowed="empty or a file path",
        ),
    ] = ""
    issuer: Annotated[
        str,
        setting("The 'iss' that tokens must have. Empty: the one that oidc_discovery names, else any.", reload=True),
    ] = ""
    audience: Annotated[str, setting("What 'aud' of a token must contain. Empty: any.", reload=True)] = ""
    algorithms: Annotated[
        tuple[Algorithm, ...],
        setting("Signature algorithms that are accepted. Type jwks needs at least one.", reload=True),
    ] = ()
    cache_ttl_seconds: Annotated[
        int,
        setting(
            "How long fetched keys count as fresh; they are renewed before.",
            ge=1,
            le=86_400,
            unit="seconds",
            reload=True,
        ),
    ] = 300
    longest_seconds: Annotated[
        int,
        setting(
            "Longest remaining lifetime ('exp') of a proof; longer ones are rejected. For bearer tokens "
            "auth.jwt_longest_seconds counts.",
            ge=60,
            le=315_360_000,
            unit="seconds",
            reload=True,
        ),
    ] = 86_400
    stale_on_error: Annotated[
        bool,
        setting(
            "Verify with the last good keys while fresh ones cannot be fetched; results then say "
            "verifiedFromCache. False: such proofs are 'unavailable'.",
            reload=True,
        ),
    ] = True
    require_sub_match: Annotated[
        bool,
        setting(
            "'sub' of the token must be the actor's id, or the part of it before '/' and a suffix. False: 'sub' is "
            "the identity that counts, whatever id the actor states.",
            reload=True,
        ),
    ] = True
    did_allowlist: Annotated[
        tuple[Did, ...],
        setting(
            "Issuers whose keys are taken from their own did:web documents. Not together with the sources above.",
            reload=True,
        ),
    ] = ()
    did_pattern: Annotated[
        str,
        setting(
            "More such issuers, by pattern, as in did:web:agents.example.org:* where '*' stands for any text "
            "between two colons, or for part of it.",
            reload=True,
            allowed="empty or a did:web identifier with '*', whose host is named",
        ),
    ] = ""
    did_strict_relationship: Annotated[
        bool, setting("Only keys that the document lists under assertionMethod count.", reload=True)
    ] = True
    did_loose_kid_match: Annotated[
        bool,
        setting("A token whose 'kid' is not in the document may use its key if there is exactly one.", reload=True),
    ] = True
    did_allow_loopback: Annotated[
        bool, setting("For development only: did:web documents may come from this machine.", reload=True)
    ] = False

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the given settings that say where keys come from."""
        return tuple(name for name in (*STATIC_SOURCES, *DID_SOURCES) if getattr(self, name))


class ActorAuthentication(_Section, frozen=True, kw_only=True):
    enabled: Annotated[
        bool,
        setting(
            "Reject advance_item and manage_notes upsert as a whole if any element has no actor, so that "
            "each records who made it. create_work_tree and complete_tree need none.",
            group="Actors",
            reload=True,
        ),
    ] = False
    degraded_mode_policy: Annotated[
        str,
        setting(
            "Which identity counts when a proof does not verify. accept-cached: the id in the proof if "
            "cached keys verify it, else the id that the actor states. accept-self-reported: always the id "
            "that the actor states. reject: none; calls that need an identity are rejected.",
            pattern=r"^(?i:accept[-_]cached|accept[-_]self[-_]reported|reject)\Z",
            allowed=f"one of {', '.join(POLICIES)}",
            alias=POLICY_VARIABLE,
            reload=True,
        ),
    ] = "accept-cached"
    verifier: VerifierSettings = VerifierSettings()

    @property
    def policy(self) -> Policy:
        """The degraded-mode policy in its normal spelling."""
        stated = self.degraded_mode_policy.lower().replace("_", "-")
        return next(policy for policy in POLICIES if policy == stated)


def verifier_problems(verifier: VerifierSettings, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Contradictions between the settings of a verifier: where, and a sentence about it."""
    name = ".".join(map(str, path))
    if verifier.did_pattern and (problem := _open_pattern(verifier.did_pattern)):
        yield (*path, "did_pattern"), f"{name}.did_pattern {problem}"
    if verifier.type == "noop":
        return
    static = [source for source in STATIC_SOURCES if getattr(verifier, source)]
    did = [source for source in DID_SOURCES if getattr(verifier, source)]
    if static and did:
        yield (
            (*path, did[0]),
            f"{name}.{did[0]} cannot be together with {' and '.join(static)}: keys come either from the issuers' own "
            "did:web documents or from those sources",
        )
    if not static and not did:
        yield (
            (*path, "type"),
            f"{name}.type is jwks, so keys must come from somewhere: give one or more of {', '.join(STATIC_SOURCES)}, "
            f"or {' or '.join(DID_SOURCES)}",
        )
    if not verifier.algorithms:
        yield (
            (*path, "type"),
            f"{name}.algorithms is needed with type jwks: list the signature algorithms to accept, "
            'for example ["EdDSA", "RS256"]',
        )


def unused_verifier(verifier: VerifierSettings, path: KeyPath, sources: Mapping[str, str]) -> str | None:
    """A sentence if keys are configured but ``type`` is missing, which would make the verifier check nothing.

    An explicit ``noop`` is the operator's choice.

    Args:
        sources: where each setting came from.
    """
    name = ".".join(map(str, path))
    if verifier.type == "noop" and verifier.sources and sources.get(f"{name}.type") == "default":
        named = ", ".join(verifier.sources)
        return f"{name}.type is missing beside {named}: 'jwks' verifies with these keys, 'noop' leaves them unused"
    return None


def located_verifier(verifier: VerifierSettings, locate: Locate) -> VerifierSettings:
    """The verifier with an absolute ``jwks_path``. Raises SettingsError."""
    if not verifier.jwks_path:
        return verifier
    return msgspec.structs.replace(verifier, jwks_path=locate(verifier.jwks_path))


def _open_pattern(pattern: str) -> str:
    match = _DID_PATTERN.fullmatch(pattern)
    if match is None or "**" in pattern:
        return "must be a did:web identifier in which '*' stands for a part between colons, such as did:web:a.example:*"
    if not _OPEN_HOST.fullmatch(match["host"]):
        return "must name a host: '*' may stand at most for the first label of it, as in did:web:*.example.org:*"
    return ""
