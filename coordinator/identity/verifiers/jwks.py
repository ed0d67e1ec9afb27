"""The verifier that checks signatures: ``jwks``.

Outcomes of tokens that do not verify (README.md, 'Verification'):

* ``rejected/crypto``: the token is malformed, the key is unknown, or the signature is wrong.
* ``rejected/policy``: the algorithm is not listed, or the DID is not trusted.
* ``rejected/claims``: times, issuer or audience.
* ``unavailable/network``: there are no keys to verify with.

Guaranteed:

* The outcome depends only on keys, settings and the fleet's time, so all processes give the same one.
* The outcome "there is no such key" is given only if the keys are not known to be out of date; else it is
  ``unavailable``.
* A token is verified once per process and set of keys. When it comes again, that costs a look-up.

PyJWT checks signatures. It gets the key, and the one algorithm that key and header agree on.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from jwt.algorithms import Algorithm, get_default_algorithms

from coordinator.identity import jws
from coordinator.identity.callers.credentials import source_of
from coordinator.identity.clock import FleetClock
from coordinator.identity.jws import BadToken, Token
from coordinator.identity.keys.resolvers import CandidateKey, KeyResolver
from coordinator.identity.metrics import KEY_AGE, SIGNATURE_SECONDS
from coordinator.identity.verifier import Outcome
from coordinator.identity.verifiers import claims
from coordinator.identity.verifiers.proof_cache import Proof, ProofCache
from coordinator.settings.sections.identity import VerifierSettings

NAME = "jwks"
_BEAT_SECONDS = 5.0

_ABSENT = Outcome(status="absent", verifier=NAME)
_TOO_LONG = Outcome(
    status="rejected",
    verifier=NAME,
    failure="crypto",
    reason=f"the token has more than {jws.MAX_TOKEN} characters",
)
_ALGORITHMS: Mapping[str, Algorithm] = get_default_algorithms()

_log = structlog.get_logger(__name__)


class JwksVerifier:
    """Verifies tokens with the keys that a resolver knows.

    Args:
        settings: which tokens are accepted.
        resolver: finds keys; closed together with the verifier.
    """

    name = NAME
    without_token = _ABSENT

    def __init__(self, settings: VerifierSettings, resolver: KeyResolver, clock: FleetClock) -> None:
        self._settings = settings
        self._algorithms = frozenset(settings.algorithms)
        self.resolver = resolver
        """Finds the keys of tokens."""
        self.clock = clock
        """The time that tokens are judged by."""
        self._background: tuple[asyncio.Task[None], ...] = ()
        self.proofs = ProofCache()
        """The tokens that were verified."""
        # For the few algorithms that take almost a millisecond, which would hold up other calls. They release the
        # interpreter's lock, so a thread helps. For the other algorithms, changing threads would cost more.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="signatures")

    async def start(self) -> None:
        """Loads the fleet's time and its copies of the keys, and keeps both fresh from now on."""
        await self.clock.look()
        await self.resolver.start()
        self._background = (
            asyncio.create_task(self.clock.follow(), name="fleet's time"),
            asyncio.create_task(self._show_ages(), name="identity"),
        )

    async def verify(self, token: str | None) -> Outcome:
        """Verifies the token. Does not raise, whatever is in it."""
        if token is None or not token.strip():
            return _ABSENT
        if len(token) > jws.MAX_TOKEN:
            return _TOO_LONG
        name = ProofCache.name(token)
        proof = self.proofs.get(name)
        if proof is not None:
            outcome = self._again(proof)
            if outcome is not None:
                return outcome
            self.proofs.drop(name)
        began = time.perf_counter()
        try:
            outcome = await self._verify(token, name)
        except BadToken as bad:
            unsure = bad.kind == "network"
            outcome = Outcome(
                status="unavailable" if unsure else "rejected", verifier=NAME, reason=bad.reason, failure=bad.kind
            )
        except Exception:
            _log.exception("a token could not be verified")
            outcome = Outcome(
                status="rejected", verifier=NAME, reason="a defect of the coordinator", failure="internal"
            )
        SIGNATURE_SECONDS.observe(time.perf_counter() - began)
        return outcome

    def report(self) -> dict[str, Any]:
        """The sources of keys and their state."""
        return self.resolver.report()

    async def aclose(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self._executor.shutdown(wait=False)
        await self.resolver.aclose()

    async def _show_ages(self) -> None:
        """Refreshes the metrics about the age of keys, until it is cancelled."""
        while True:
            for kind, age in self.resolver.ages().items():
                KEY_AGE.labels(kind).set(age)
            await asyncio.sleep(_BEAT_SECONDS)

    def _again(self, proof: Proof) -> Outcome | None:
        """The outcome of a proof that was verified before; None: it has to be verified again."""
        now = self.clock.now()
        cache = proof.cache
        if not proof.begins <= now <= proof.ends or not cache.answers or cache.left_alone:
            return None
        if cache.keys is not proof.keys:
            # The keys were renewed. If this key is still among them, its tokens are still valid.
            kid, algorithm = proof.key.kid, proof.algorithm
            others = cache.keys.suiting(algorithm) if kid is None else cache.keys.named(kid, algorithm)
            if not any(proof.key.thumbprint == other.thumbprint for other in others):
                return None
            proof.keys = cache.keys
        if proof.issuer != self._expected():
            return None
        self.resolver.used(cache)
        return proof.outcome if cache.fresh else _verified(proof)

    async def _verify(self, text: str, name: bytes) -> Outcome:
        token = jws.read(text, self.resolver.max_kid)
        if token.algorithm not in self._algorithms:
            raise BadToken("policy", "the signature algorithm ('alg') is not one of those that are accepted")
        found = await self.resolver.resolve(token.kid, token.algorithm, token.claims)
        match = await self._signer(token, found)
        issuer = self._expected()
        if issuer is None:
            raise BadToken("network", "the issuer is not known yet: the discovery document could not be fetched")
        stated = self._settings
        valid = claims.check(token.claims, self.clock.now(), issuer, stated.audience, stated.longest_seconds)
        proof = Proof(
            cache=match.cache,
            keys=match.keys,
            key=match.key,
            algorithm=token.algorithm,
            issuer=issuer,
            subject=valid.subject,
            claims=token.claims,
            begins=valid.begins,
            ends=valid.ends,
            source=source_of(stated, match.cache.source.kind),
        )
        proof.outcome = _verified(proof, fresh=True)
        self.proofs.keep(name, proof)
        return proof.outcome if match.cache.fresh else _verified(proof)

    def _expected(self) -> str | None:
        """The issuer that tokens must name; empty: any; None: not known yet."""
        return self._settings.issuer or self.resolver.issuer

    async def _signer(self, token: Token, found: Sequence[CandidateKey]) -> CandidateKey:
        """The candidate that made the signature.

        Raises:
            BadToken: crypto; none of them did.
        """
        verify = _ALGORITHMS[token.algorithm].verify
        for match in found:
            if match.key.slow:
                loop = asyncio.get_running_loop()
                good = await loop.run_in_executor(self._executor, verify, token.signed, match.key.key, token.signature)
            else:
                good = verify(token.signed, match.key.key, token.signature)
            if good:
                return match
        raise BadToken("crypto", "the signature of the token is wrong")


def _verified(proof: Proof, fresh: bool = False) -> Outcome:
    return Outcome(
        status="verified",
        verifier=NAME,
        subject=proof.subject,
        claims=proof.claims,
        stale_seconds=None if fresh else int(proof.cache.age),
        source=proof.source,
        expires=proof.ends if math.isfinite(proof.ends) else None,
    )
