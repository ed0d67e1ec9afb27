"""``fleet top``: live view of the fleet in the terminal.

``readings`` reads the fleet's metrics and computes rates between two readings; ``screen`` draws them; ``command`` is
the command.
"""
