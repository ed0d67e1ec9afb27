"""Webhooks: the change feed of a project, sent to receivers that the settings name.

They follow Standard Webhooks: thin signed bodies, each with an id that stays the same whenever it is sent again. One
front-end of the fleet delivers (``leader.py``), to each receiver in the order of the feed and one message at a time
(``delivery.py``). The position that a receiver has reached is in Redis and moves only after its receiver has answered
with success, so nothing is lost with a process, and what was under way is sent again (``records.py``). ``sender.py``
makes one request within limits, ``signing.py`` signs it, and ``check.py`` finds what is wrong with the settings.
"""

from coordinator.webhooks.leader import Webhooks

__all__ = ["Webhooks"]
