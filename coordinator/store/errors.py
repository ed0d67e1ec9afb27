"""Errors between this process and the store: for operators at start-up, and for defects.

Callers of tools never see these; they get a ``ToolFailure`` (``link/replies.py``).
"""

from __future__ import annotations


class StoreError(Exception):
    """The store cannot be used, or was used wrongly. Its text is one clear sentence without secrets."""


class AddressError(StoreError):
    """A store URL that cannot be understood."""


class StoreUnreachable(StoreError):
    """No server answers at the address, or it rejects the connection."""


class AccessRefused(StoreUnreachable):
    """The server answers, and refuses our user or password, or that there is none: it is no use to try again."""

    setting = "redis_url and FLEET_REDIS_PASSWORD"
    """Where user and password come from."""


def explained(error: StoreError) -> str:
    """The text for operators: where access was refused, with the setting to look at."""
    return f"{error}; see {error.setting}" if isinstance(error, AccessRefused) else str(error)


def access_problem(said: str) -> str:
    """The problem, in words, from what the server says."""
    wrong = "username-password" in said
    return f"access refused: {'wrong user or password' if wrong else 'a password is needed, and the URL has none'}"


class StoreTooOld(StoreError):
    """The server (or its binary) is older than what the scripts need."""


class KeySpaceDiffers(StoreError):
    """Another release, with another layout of keys, uses the store (``checks/key_space.py``)."""


class StoreChanged(StoreError):
    """The store is not the one that the fleet had, or was flushed (``checks/identity.py``)."""


class CommandsDenied(StoreError):
    """The Redis user lacks permissions (``checks/permissions.py``)."""


class ScriptError(StoreError):
    """A Lua source file is invalid: its header, its modules or its key names, or it does not compile."""


class ScriptFailure(StoreError):
    """A script refused with one of the codes that its header declares.

    Attributes:
        code: the declared code, for example ``CONFLICT``.
        detail: the text behind the code, possibly empty.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code} {detail}".rstrip())
        self.code = code
        self.detail = detail


class ServerError(StoreError):
    """An error reply of the server, as it came; the text begins with the server's code word."""

    @property
    def code(self) -> str:
        """The first word: ``ERR``, ``WRONGTYPE``, ``OOM`` ..."""
        return str(self).split(" ", 1)[0]
