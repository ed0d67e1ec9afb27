"""The change feed: what happens in a project, for listeners that would otherwise poll.

Every change of a project is appended to its event stream by the operation that makes it (``events.lua`` of the store).
``FeedReader`` reads the streams of the projects that somebody in this process listens to, over one connection, and
gives each listener what its filter lets through. README.md is about the feed as its users see it: kinds of events,
cursors and gaps. ``transport/feed/endpoint.py`` serves it over HTTP.

Delivery is in the order of the stream, and at least once: a listener that comes back with its last cursor misses
nothing, or is told that something is missing.
"""

from coordinator.feed.cursor import Cursor, parse
from coordinator.feed.events import Event, Gap
from coordinator.feed.filters import Filter
from coordinator.feed.listener import Listener
from coordinator.feed.reader import FeedReader

__all__ = ["Cursor", "Event", "FeedReader", "Filter", "Gap", "Listener", "parse"]
