"""What carries a call over several requests: questions (``asking.py``) and tasks (``tasks.py``)."""

from __future__ import annotations

from coordinator.identity.callers.rights import Rights
from coordinator.transport.rounds.asking import Asking
from coordinator.transport.rounds.sealing import Seals
from coordinator.transport.rounds.tasks import Tasks


class Rounds:
    """Questions and tasks of one process."""

    def __init__(self, seals: Seals, rights: Rights) -> None:
        self.asking = Asking(seals)
        self.tasks = Tasks(seals, rights)
