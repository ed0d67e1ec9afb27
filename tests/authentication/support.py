"""Tokens, token files, authenticators and fake verifiers for tests."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import msgspec

from coordinator.identity.callers import token_edit
from coordinator.identity.callers.authenticator import Authenticator
from coordinator.identity.callers.token_file import KEY_DIGITS, Kind, TokenEntry, digest_of, new_token
from coordinator.identity.clock import FleetClock
from coordinator.identity.metrics import TOKEN_FILE_READS
from coordinator.identity.verifier import Outcome
from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.settings.sections.identity import VerifierSettings
from tests.support.counts import all_counted

KEYS = VerifierSettings(
    type="jwks", jwks_path="/nowhere", algorithms=("EdDSA",), issuer="https://issuer.example", audience="fleet"
)


def key_of(token: str) -> str:
    """The key of the entry of a token."""
    return digest_of(token.encode()).hex()[:KEY_DIGITS]


class Tokens:
    """A token file, and its tokens in clear text."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(
        self,
        id: str = "agent-1",
        *,
        kind: Kind = "subagent",
        permissions: tuple[str, ...] | None = None,
        projects: tuple[str, ...] | None = None,
        roles: tuple[str, ...] = (),
        seconds: float | None = None,
    ) -> str:
        """A new token in the file; it ends after ``seconds``."""
        token = new_token()
        expires = None if seconds is None else dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
        entry = TokenEntry(
            id=id,
            sha256=digest_of(token.encode()).hex(),
            kind=kind,
            permissions=permissions,
            projects=projects,
            roles=roles,
            expires=expires,
        )
        token_edit.add(self.path, entry)
        return token

    def add_digest(self, id: str, secret: bytes) -> None:
        """An entry for anything, also for what is no token."""
        entry = TokenEntry(id=id, sha256=digest_of(secret).hex(), kind="user", permissions=("*",))
        token_edit.add(self.path, entry)

    def replace(self, token: str) -> str:
        """A new token in the place of another one, with the same rights."""
        fresh = new_token()

        def make(entries: tuple[TokenEntry, ...]) -> tuple[TokenEntry, TokenEntry]:
            (old,) = (entry for entry in entries if entry.key == key_of(token))
            digest = digest_of(fresh.encode()).hex()
            return old, msgspec.structs.replace(old, sha256=digest, replaces=(*old.replaces, old.key))

        token_edit.replace(self.path, make)
        return fresh

    def revoke(self, name: str) -> None:
        """Removes the tokens of an id, or a token."""
        assert token_edit.remove(self.path, lambda entry: name == entry.id or entry.key == key_of(name))

    def write(self, text: str) -> None:
        """Puts anything into the file, in one step."""
        fresh = self.path.with_name("fresh")
        fresh.write_text(text)
        fresh.chmod(0o600)
        fresh.replace(self.path)


class FakeVerifier:
    """Returns configured outcomes; counts its calls."""

    name = "jwks"
    without_token = Outcome(status="absent", verifier="jwks")

    def __init__(self, settings: VerifierSettings) -> None:
        self.settings = settings
        self.outcomes: dict[str, Outcome] = {}
        self.asked: list[str] = []
        self.started = self.closed = 0

    def knows(self, token: str, *, expires: float | None = None, stale: int | None = None, **claims: Any) -> str:
        """From now on ``token`` is a verified one with these claims."""
        claims = {"iss": self.settings.issuer, "sub": "agent-9", "aud": "fleet", **claims}
        self.outcomes[token] = Outcome(
            status="verified",
            verifier="jwks",
            subject=claims["sub"] or "",
            claims={name: value for name, value in claims.items() if value is not None},
            expires=expires,
            stale_seconds=stale,
        )
        return token

    async def start(self) -> None:
        self.started += 1

    async def verify(self, token: str | None) -> Outcome:
        assert token is not None
        self.asked.append(token)
        rejected = Outcome(status="rejected", verifier="jwks", reason="the signature is wrong", failure="crypto")
        return self.outcomes.get(token, rejected)

    def report(self) -> dict[str, Any]:
        return {"state": "full"}

    async def aclose(self) -> None:
        self.closed += 1


class Authenticators:
    """Makes authenticators, and keeps their verifiers and reports."""

    def __init__(self) -> None:
        self.verifiers: list[FakeVerifier] = []
        self.clock = FleetClock()
        self.made: list[Authenticator] = []

    def make(self, settings: Settings | None = None, **auth: Any) -> Authenticator:
        """An authenticator that is not started."""
        settings = settings or Settings(auth=Auth(**auth))

        def verifier(wanted: VerifierSettings) -> FakeVerifier:
            self.verifiers.append(FakeVerifier(wanted))
            return self.verifiers[-1]

        authenticator = Authenticator(settings, verifier, self.clock)
        self.made.append(authenticator)
        return authenticator

    @property
    def reads(self) -> dict[str, int]:
        """How often the file was read, by outcome."""
        return all_counted(TOKEN_FILE_READS)

    @property
    def verifier(self) -> FakeVerifier:
        """The latest."""
        return self.verifiers[-1]

    async def close(self) -> None:
        for authenticator in self.made:
            await authenticator.stop()


def with_auth(settings: Settings, **auth: Any) -> Settings:
    """The settings with another section ``auth``."""
    return msgspec.structs.replace(settings, auth=Auth(**auth))
