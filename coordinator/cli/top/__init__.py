"""``fleet top``: shows in the terminal what the fleet does right now.

``readings`` reads the fleet's metrics and computes rates between two readings; ``screen`` draws them; ``command`` is
the command.
"""
