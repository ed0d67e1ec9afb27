"""Authentication for commands: builds the authenticator of a process, and identifies the client of stdio."""

from __future__ import annotations

import msgspec

from coordinator.errors import ToolFailure
from coordinator.identity.callers.authenticator import Authenticator
from coordinator.identity.callers.grants import Denied, Grant
from coordinator.identity.callers.token_file import TokenFileError
from coordinator.identity.clock import FleetClock
from coordinator.identity.verifiers.build import build_verifier
from coordinator.processes.errors import ProcessProblem
from coordinator.settings import TOKEN_VARIABLE, Settings
from coordinator.store import Store
from coordinator.toolsets.caller import Caller
from coordinator.transport.stdio.server import Principal


def build_authenticator(settings: Settings, store: Store) -> Authenticator:
    """The authenticator that the settings ask for; ``start`` makes it watch its sources.

    Raises:
        ProcessProblem: the token file cannot be used.
    """
    try:
        clock = FleetClock(store.time)
        return Authenticator(settings, lambda wanted: build_verifier(wanted, store), clock)
    except TokenFileError as error:
        raise ProcessProblem(str(error), "usage") from None


async def stdio_principal(authenticator: Authenticator, token: str | None, project: str) -> Principal:
    """A function that identifies the only client of this process by its token, for each call.

    Args:
        token: the client's; None: it has none.
        project: the project that all its calls work on.

    Raises:
        ProcessProblem: the token is invalid, or it is missing although it is required.
    """
    credential = None if token is None else b"Bearer " + token.strip().encode()
    last: Grant | None = None

    async def principal(begun: Caller | None = None) -> Caller | None:
        nonlocal last
        if authenticator.mode == "none":
            return None
        try:
            if begun is not None and last is not None:
                return await authenticator.again(credential, msgspec.structs.replace(last, caller=begun), project)
            grant = last = await authenticator.authenticate(credential)
        except Denied as denied:
            code = "permission_denied" if denied.reason == "project" else "unauthenticated"
            raise ToolFailure(code, f"{TOKEN_VARIABLE}: {denied.description}") from None
        if grant is not None and grant.projects is not None and project not in grant.projects:
            raise ToolFailure("permission_denied", f"the token is not for the project {project!r}")
        return grant.caller if grant is not None else None

    try:
        await principal()
    except ToolFailure as failure:
        raise ProcessProblem(failure.message, "usage") from None
    return principal
