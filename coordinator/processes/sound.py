"""Checks the sections of the settings that need more than the settings package knows, whenever settings are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.processes.gateway_settings import findings
from coordinator.settings import LoadedSettings, SettingsError
from coordinator.settings.problems import KeyPath


def sound(loaded: LoadedSettings) -> LoadedSettings:
    """The settings, if the sections ``gateway`` and ``webhooks`` have no errors.

    Raises:
        SettingsError: with every error and its location.
    """
    errors = [sentence for level, sentence in findings(loaded) if level == "error"]
    if loaded.settings.webhooks:
        # Imported here, because most fleets have no webhooks.
        from coordinator.webhooks.check import problems

        errors += _placed(loaded, problems(loaded.settings.webhooks))
    if errors:
        raise SettingsError(errors)
    return loaded


def require_secrets(loaded: LoadedSettings, environment: Mapping[str, str]) -> None:
    """Checks that the environment has the secrets of webhooks and of the console, for commands that serve these.

    Raises:
        SettingsError: with each that is missing.
    """
    oauth = loaded.settings.console.oauth
    if oauth is not None and oauth.client_secret_env and not environment.get(oauth.client_secret_env):
        problem = f"the environment variable {oauth.client_secret_env} is not set"
        raise SettingsError(_placed(loaded, [(("console", "oauth", "client_secret_env"), problem)]))
    if loaded.settings.webhooks:
        from coordinator.webhooks.check import secret_problems

        if errors := _placed(loaded, secret_problems(loaded.settings.webhooks, environment)):
            raise SettingsError(errors)


def _placed(loaded: LoadedSettings, problems: Iterable[tuple[KeyPath, str]]) -> list[str]:
    places = []
    for path, sentence in problems:
        place = loaded.place(path)
        places.append(f"{place + ': ' if place else ''}{'.'.join(map(str, path))}: {sentence}")
    return places
