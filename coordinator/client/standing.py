"""What became of an item that its agent has left, in words."""

from __future__ import annotations


def left(failed: int, most: int, back_off: str) -> str:
    """Of an item that was begun, and that nobody holds: ``failed, 2 attempts left``, ``in back-off until ...``, or
    ``given back``.

    Args:
        failed: attempts that count.
        most: how many it may have; 0: any number.
        back_off: until when it is in back-off; empty: it is not.
    """
    if back_off:
        return f"in back-off until {back_off}"
    if not failed:
        return "given back"
    rest = max(most - failed, 0)
    return f"failed, {rest or 'no'} attempt{'' if rest == 1 else 's'} left" if most else "failed"
