"""``fleet doctor identity``: tries the key sources, and judges a token."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS
from coordinator.cli.terminal import print_as
from coordinator.doctor.findings import Finding, lines_of
from coordinator.doctor.identity import check_sources, check_token
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.stores import open_store, running_url
from coordinator.settings import LoadedSettings, Settings
from coordinator.store import Store


@with_settings(only=STORE_SETTINGS)
def identity(
    loaded: LoadedSettings,
    *,
    token: Annotated[
        Path | None,
        Parameter(help="A file with a token to judge; '-' is stdin.", metavar="FILE", allow_leading_hyphen=True),
    ] = None,
    actor: Annotated[str, Parameter(help="The id of the actor that would present the token.", metavar="ID")] = "",
    issuer: Annotated[
        tuple[str, ...],
        Parameter(help="A did:web issuer to look at, beside those of did_allowlist.", metavar="DID"),
    ] = (),
    format: Annotated[Literal["text", "json"], Parameter(help="How to print what was found.")] = "text",
) -> int:
    text = _read_token(token) if token is not None else None
    findings = asyncio.run(_collect(loaded.settings, text, actor, issuer))
    print_as(findings, lines_of(findings), format == "json")
    return Exit.FAILED if any(finding.verdict == "fails" for finding in findings) else Exit.OK


def _read_token(file: Path) -> str:
    try:
        return (sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CommandFailed(f"cannot read the token from {file}: {reason}", Exit.USAGE) from None


async def _collect(settings: Settings, token: str | None, actor: str, issuers: tuple[str, ...]) -> list[Finding]:
    store, findings = await _open_store(settings)
    try:
        async for finding in check_sources(settings, store, issuers):
            findings.append(finding)
        if token is not None:
            async for finding in check_token(settings, store, token, actor):
                findings.append(finding)
    finally:
        if store is not None:
            await store.close()
    return findings


async def _open_store(settings: Settings) -> tuple[Store | None, list[Finding]]:
    """Opens the fleet's store; None, with a note that says why, if that cannot be done."""
    try:
        return await open_store(running_url(settings), settings.redis_timeout_ms, timeout=0), []
    except ProcessProblem as failed:
        return None, [Finding("note", "fleet", f"the state that its processes share is not checked: {failed}")]
