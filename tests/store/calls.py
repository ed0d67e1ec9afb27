"""The scripts that the store's tests call."""

from __future__ import annotations

from coordinator.store import Library, Script

FIXTURES = Library("tests.store.fixtures.scripts")
FAULTY = Library("tests.store.fixtures.faulty")

ECHO = Script(FIXTURES, "echo", tuple[str, int, list[str]])
BUMP = Script(FIXTURES, "bump")
REFUSE = Script(FIXTURES, "refuse")
BLOB = Script(FIXTURES, "blob")
WRITE_NUMBER = Script(FIXTURES, "write_number")
