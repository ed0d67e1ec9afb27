"""Settings: one frozen struct, filled from flags, environment and a YAML file.

Precedence is flag > environment > file > default. Every given value is checked, even one that a stronger source
overrides. All problems are reported together, each with its place (``/etc/fleet.yaml:12``, ``environment FLEET_PORT``,
``flag --port``), the name of the setting and what is allowed.

``model`` declares the settings; the larger ``sections`` have modules of their own. ``fields`` derives names, types and
limits from these structs. ``yaml_file`` and ``convert`` read values, ``load`` merges the sources, ``contradictions``
finds values that exclude each other. ``effective_auth`` derives how the HTTP endpoint authenticates, ``example`` writes
``config/fleet.yaml``, and ``reload`` decides which settings a running process takes over.

A new setting is one field in ``model``. A new section is a field whose type is a struct (its fields get an environment
variable, ``FLEET_SECTION_FIELD``, but no flag), or a mapping or list of structs (only a file can write it).
"""

from coordinator.settings.example import example_yaml
from coordinator.settings.load import (
    AGENT_VARIABLE,
    INTERNAL_ENVIRONMENT,
    ITEM_VARIABLE,
    PROJECT_VARIABLE,
    TOKEN_VARIABLE,
    URL_VARIABLE,
    LoadedSettings,
    load,
    load_settings,
)
from coordinator.settings.model import Settings
from coordinator.settings.problems import SettingsError
from coordinator.settings.redact import redacted
from coordinator.settings.reload import config_version, needing_restart, settings_digest, taken_over

__all__ = [
    "AGENT_VARIABLE",
    "INTERNAL_ENVIRONMENT",
    "ITEM_VARIABLE",
    "PROJECT_VARIABLE",
    "TOKEN_VARIABLE",
    "URL_VARIABLE",
    "LoadedSettings",
    "Settings",
    "SettingsError",
    "config_version",
    "example_yaml",
    "load",
    "load_settings",
    "needing_restart",
    "redacted",
    "settings_digest",
    "taken_over",
]
