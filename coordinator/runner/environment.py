"""The environment of commands: what is passed on of the runner's, and what is set. Nothing else is inherited."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

_PASSED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
    *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
)
_PASSED_PREFIXES = ("LC_",)
_SET = {"TERM": "dumb", "NO_COLOR": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", "GIT_PAGER": "cat"}
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")
"""What ``--env`` takes: the name of a variable, or the beginning of several, with a star."""


def environment_of(
    own: Mapping[str, str], agent: str, names: Collection[str], added: Mapping[str, str] = {}
) -> dict[str, str]:
    """The environment of a command.

    Args:
        agent: who is named as author of commits, unless the runner's environment or ``names`` say otherwise.
        names: further variables that are passed on, of the preset and of ``--env``; ``NAME*`` is all that begin so.
        added: variables with their values; win over all others.
    """
    prefixes = (*_PASSED_PREFIXES, *(name[:-1] for name in names if name.endswith("*")))
    exact = {*_PASSED, *names}
    passed = {
        name: value
        for name, value in own.items()
        # The runner's own credential is never passed on, whatever --env says.
        if (name in exact or name.startswith(prefixes)) and name != "FLEET_TOKEN"
    }
    who = re.sub(r"[^A-Za-z0-9._/@ -]", "-", agent) or "fleet"
    mail = re.sub(r"[^A-Za-z0-9._-]", "-", agent).strip("-.") or "fleet"
    identity = {
        f"GIT_{role}_{field}": value
        for role in ("AUTHOR", "COMMITTER")
        for field, value in (("NAME", who), ("EMAIL", f"{mail}@fleet.invalid"))
    }
    return identity | _SET | passed | dict(added)


def absolute(places: str) -> str:
    """A list of directories such as ``PATH`` without relative and empty ones: they are in workspaces, which commands
    write to.
    """
    return os.pathsep.join(place for place in places.split(os.pathsep) if os.path.isabs(place))
