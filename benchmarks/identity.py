"""What does it cost to verify callers, and does a hanging key server delay calls?

First: one process verifies proofs with known keys while its key server accepts connections but never
answers, and tokens with 10,000 unknown keys arrive. Prints the latency of known ones, cached and new,
without and with the flood, and for comparison the time of a bare signature check, which shows the load
of the machine. Then: claims over HTTP with a verified proof against claims without one, on two
front-ends with one store, in turn; prints CPU time per claim and the ratio.

    python -m benchmarks identity [ROUNDS] [SECONDS] [UNKNOWN] [KNOWN]
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
import time
from statistics import median

import uvloop
from jwt.algorithms import get_default_algorithms

from benchmarks.load import CONNECTIONS, FIGURES, Run, Server, agent, measure
from benchmarks.support import Failed, add_items, console, embedded, front_end, middle, percentile, ratio, table
from coordinator.identity.verifiers.build import build_verifier
from coordinator.settings.sections.identity import VerifierSettings
from coordinator.store import Store
from tests.identity.servers import KeyServer
from tests.identity.signing import AUDIENCE, ISSUER, Signer, jwks

_PER_SECOND = 2_000
_GOAL_MS = 5.0
_GOAL_RATIO = 1.3
_NO, _YES = "no proof", "verified proof"


def _settings(url: str) -> VerifierSettings:
    return VerifierSettings(
        type="jwks", jwks_uri=url, issuer=ISSUER, audience=AUDIENCE, algorithms=("EdDSA", "ES256", "RS256")
    )


async def _latencies(
    url: str, server: KeyServer, algorithm: str, unknown: int, known_tokens: int
) -> dict[str, list[float]]:
    """Milliseconds of each verification: of cached and new tokens, alone and in the flood."""
    signer = Signer("known", algorithm)
    path = f"/{algorithm}"
    server.serve(jwks(signer), path)
    store = Store(url)
    await store.open()
    verifier = build_verifier(_settings(server.url(path)), store)
    await verifier.start()
    seen = signer.token("agent")
    fresh = {when: [signer.token(f"{when}-{n}") for n in range(known_tokens)] for when in ("alone", "in the flood")}
    strangers = [signer.token("agent", head={"kid": f"made-up-{n}"}) for n in range(unknown)]
    found: dict[str, list[float]] = {}

    async def timed(token: str, into: str) -> None:
        began = time.perf_counter()
        outcome = await verifier.verify(token)
        found.setdefault(into, []).append((time.perf_counter() - began) * 1000)
        if outcome.status != "verified":
            raise Failed(f"not verified: {outcome}")

    check, public = get_default_algorithms()[algorithm].verify, signer.private.public_key()
    signed, _, signature = seen.rpartition(".")
    made = base64.urlsafe_b64decode(signature + "==")

    def bare(into: str) -> None:
        began = time.perf_counter()
        check(signed.encode(), public, made)
        found.setdefault(into, []).append((time.perf_counter() - began) * 1000)

    async def known(when: str) -> None:
        for token in fresh[when]:
            due = time.perf_counter() + unknown / _PER_SECOND / known_tokens
            await timed(token, f"new, {when}")
            await timed(seen, f"seen before, {when}")
            bare(f"(a bare signature check, {when})")
            await asyncio.sleep(max(due - time.perf_counter(), 0))

    async def flood() -> None:
        calls = []
        began = time.perf_counter()
        for number, token in enumerate(strangers):
            calls.append(asyncio.create_task(verifier.verify(token)))
            await asyncio.sleep(max(began + number / _PER_SECOND - time.perf_counter(), 0))
        outcomes = {(outcome.status, outcome.failure) for outcome in await asyncio.gather(*calls)}
        if not outcomes <= {("unavailable", "network"), ("rejected", "crypto")}:
            raise Failed(f"unknown keys were answered with {outcomes}")

    try:
        await verifier.verify(seen)
        await known("alone")
        server.misbehave("hang", path)
        before = server.count(path)
        await asyncio.gather(known("in the flood"), flood())
        console.print(f"{algorithm}: {server.count(path) - before} requests reached the hanging key server")
    finally:
        await verifier.aclose()
        await store.close()
    return found


def _hanging(url: str, server: KeyServer, unknown: int, known: int) -> None:
    rows = []
    for algorithm in ("EdDSA", "ES256", "RS256"):
        found = uvloop.run(_latencies(url, server, algorithm, unknown, known))
        rows += [
            (algorithm, kind, f"{median(values):.3f}", f"{percentile(values, 0.99):.3f}", f"{max(values):.2f}")
            for kind, values in found.items()
        ]
    title = f"verification with a known key while the key server hangs and {unknown} unknown keys arrive, ms"
    table(title, ("algorithm", "token", "p50", "p99", "worst"), rows)
    console.print(f"goal: p99 < {_GOAL_MS:.0f} ms\n")


def _claims(url: str, key_server: KeyServer, rounds: int, seconds: float) -> None:
    signer = Signer("known", "ES256")
    key_server.serve(jwks(signer))
    proofs = [signer.token(agent(number)) for number in range(1, CONNECTIONS + 1)]
    verifier = {
        "type": "jwks", "jwks_uri": key_server.url(), "issuer": ISSUER, "audience": AUDIENCE, "algorithms": ["ES256"]
    }  # fmt: skip
    verified = {"degraded_mode_policy": "reject", "verifier": verifier}
    runs: dict[str, list[Run]] = {_NO: [], _YES: []}
    with contextlib.ExitStack() as stack:
        sides: list[Server] = []
        for name, section, signed in ((_NO, {}, ()), (_YES, verified, proofs)):
            config = {"actor_authentication": section, "auth": {"mode": "none"}}
            served = stack.enter_context(front_end(url, config=config))
            sides.append(Server(name, served.port, [served.pid], proofs=signed))
        items = add_items(sides[0].port, CONNECTIONS)
        for turn in range(rounds + 1):
            for server in random.sample(sides, 2):
                run = measure(server, items, seconds if turn else min(seconds, 1))
                if turn:
                    runs[server.name].append(run)
    rows = [
        (name, *(f"{middle(found, figure):,.{digits}f}" for figure, digits in FIGURES.items()))
        for name, found in runs.items()
    ]
    title = f"claim_item over HTTP, {CONNECTIONS} connections, one process each, median of {rounds} rounds"
    table(title, ("claims with", "claims/s", "p99 ms", "server CPU us/claim"), rows)
    more = ratio(runs[_YES], runs[_NO], "cpu_us")
    console.print(f"a verified claim costs {more:.2f}x the CPU of an unverified one; goal <= {_GOAL_RATIO}x\n")


def main(rounds: str = "5", seconds: str = "3", unknown: str = "10000", known: str = "500") -> None:
    """Runs both."""
    with embedded("everysec") as store, KeyServer() as key_server:
        _hanging(store.url, key_server, int(unknown), int(known))
        _claims(store.url, key_server, int(rounds), float(seconds))
