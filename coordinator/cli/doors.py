"""The front door as commands open it."""

from __future__ import annotations

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.identity.build import build_verifier
from coordinator.identity.door import Door
from coordinator.identity.token_file import TokenFileError
from coordinator.metrics import Recorder
from coordinator.settings import Settings
from coordinator.store import Store


def open_door(settings: Settings, store: Store | None, recorder: Recorder) -> Door:
    """The door that the settings ask for; ``start`` makes it watch its sources.

    Raises:
        CommandFailed: the token file cannot be used.
    """
    try:
        return Door(settings, lambda wanted: build_verifier(wanted, store), recorder.token_file_read)
    except TokenFileError as error:
        raise CommandFailed(str(error), Exit.USAGE) from None
