"""A front-end's connection to its supervisor, as tests stand in for it."""

from __future__ import annotations

from coordinator.processes.supervision.brief import ReloadOutcome


class Told:
    """A fake lifecycle."""

    orphaned = False
    refused_reload: ReloadOutcome | None = None
    heard = False

    def begun(self) -> None:
        """Ignored."""

    def ready(self) -> None:
        self.heard = True

    def on_reload(self, take: object) -> None:
        """There are no reloads."""
