"""Reloads the settings while a command runs.

The process that the operator started rereads the file and checks it as a whole. A supervisor passes the outcome to its
front-ends through pipes, so that all get the same settings and none has to read the file. A front-end that runs alone
applies the outcome itself. An invalid file changes nothing, and is reported in the log and in /readyz.
"""

from __future__ import annotations

import os
from typing import Any

import structlog

from coordinator.metrics import process
from coordinator.processes.metrics import CONFIG_RELOADS
from coordinator.processes.sound import require_secrets, sound
from coordinator.processes.supervision.brief import ReloadOutcome
from coordinator.service import Service
from coordinator.settings import (
    LoadedSettings,
    Settings,
    SettingsError,
    config_version,
    needing_restart,
    settings_digest,
    taken_over,
)
from coordinator.settings.contradictions import contradictions
from coordinator.settings.reload import loosened_by_omission
from coordinator.toolsets.timestamp import now

_log = structlog.get_logger(__name__)


class Rereader:
    """Rereads the settings of a command, from the same flags, environment and file."""

    def __init__(self, loaded: LoadedSettings) -> None:
        self._loaded = self._latest = loaded

    def read(self) -> ReloadOutcome:
        """Reads the settings; takes a tenth of a second."""
        try:
            loaded = self._load()
            fresh = loaded.settings
        except SettingsError as error:
            _log.error("settings not reloaded, the old ones stay in force", problem=str(error))
            return ReloadOutcome(now(), None, self._without_folder(str(error)))
        # Settings that take effect now must not contradict those that change only at the next start, above all the
        # address.
        mixed = taken_over(self._loaded.settings, fresh)
        if problems := [sentence for _, sentence in contradictions(mixed)]:
            problem = "this needs a restart: " + "; ".join(problems)
            _log.error("settings not reloaded, the old ones stay in force", problem=problem)
            return ReloadOutcome(now(), None, problem)
        self._latest = loaded
        restart = needing_restart(self._loaded.settings, fresh)
        _log.info("settings reloaded", version=config_version(fresh))
        if restart:
            _log.warning("changed settings take effect at the next start", settings=restart)
        return ReloadOutcome(now(), fresh, "", restart)

    def _without_folder(self, problem: str) -> str:
        """The problem for /readyz, which anybody may read."""
        path = self._loaded.config
        return problem if path is None else problem.replace(f"{path.parent}/", "")

    def _load(self) -> LoadedSettings:
        path = self._loaded.config
        if path is not None and os.path.exists(path) and not os.path.isfile(path):
            # Opening a pipe would wait for a writer for ever. If the file is missing or unreadable, reread reports it.
            raise SettingsError([f"cannot read the config file {path}: it is not a regular file"])
        loaded = sound(self._loaded.reread())
        require_secrets(loaded, os.environ)
        if missing := list(loosened_by_omission(self._latest, loaded)):
            raise SettingsError(missing)
        return loaded


class SettingsInForce:
    """The settings in force in a front-end.

    Args:
        settings: the settings at the start.
        last: the outcome of the last reload before this process started, if it was rejected; None: it was not.
    """

    services: Service = Service()
    """What takes over new settings."""

    def __init__(self, settings: Settings, last: ReloadOutcome | None) -> None:
        self._settings = settings
        self._since = now()
        self._restart: tuple[str, ...] = ()
        self._refused = last

    def take(self, outcome: ReloadOutcome) -> None:
        """Applies new settings, atomically between calls."""
        if outcome.settings is None:
            self._refused = outcome
            CONFIG_RELOADS.labels("refused").inc()
            return
        self._settings = taken_over(self._settings, outcome.settings)
        self.services.configure(self._settings)
        self._since, self._restart, self._refused = outcome.at, outcome.restart, None
        process.note_settings(settings_digest(self._settings), config_version(self._settings))
        CONFIG_RELOADS.labels("ok").inc()

    def report(self) -> dict[str, Any]:
        """The version of the settings, and the last refusal, for /readyz."""
        facts: dict[str, Any] = {"version": config_version(self._settings), "since": self._since}
        if self._restart:
            facts["needRestart"] = self._restart
        if self._refused is not None:
            facts["refused"] = {"at": self._refused.at, "reason": self._refused.problem}
        return facts
