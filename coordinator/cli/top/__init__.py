"""``fleet top``: what the fleet does right now, in the terminal.

``readings`` reads what the fleet exports and forms rates between two readings; ``screen`` draws
them; ``command`` is the command.
"""

from coordinator.cli.top.command import top

__all__ = ["top"]
