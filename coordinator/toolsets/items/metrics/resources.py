"""The metrics of what items demand."""

from __future__ import annotations

from coordinator.metrics import Gauge, Label

MODES = ("exclusive", "shared")
RESOURCE = Label("resource", limit=50)
_MEASURED = "Of the first 50 keys of the setting resources. Measured with coordinator_items."
CAPACITY = Gauge(
    "coordinator_resource_capacity",
    "units",
    f"Units that each project has of a resource. {_MEASURED}",
    (RESOURCE,),
    merge="max",
)
HELD = Gauge(
    "coordinator_resource_held",
    "units",
    "What claims hold of a resource and of keys below it, in the project where that is most: units of exclusive "
    f"claims, and shared ones, which exclude exclusive ones only. {_MEASURED}",
    (RESOURCE, Label("mode", MODES)),
    merge="max",
)
RESERVATIONS = Gauge(
    "coordinator_resource_reservations",
    "items",
    f"Items for which a resource is reserved, because they were passed over for long; of all projects. {_MEASURED}",
    (RESOURCE,),
    merge="max",
)
WAITING = Gauge(
    "coordinator_resource_waiting_items",
    "items",
    "Ready items that demand more of a resource than is free; of all projects. Of a key that at most 8 items demand, "
    f"those that callers have passed over. {_MEASURED}",
    (RESOURCE,),
    merge="max",
)
WAITED = Gauge(
    "coordinator_resource_wait_seconds",
    "seconds",
    "For how long callers have passed over items for want of a resource without any of them being claimed, where that "
    f"is longest; 0: nowhere. {_MEASURED}",
    (RESOURCE,),
    merge="max",
    together="max",
)
LEFT = Gauge(
    "coordinator_resource_minute_units_left",
    "units",
    "Units of a resource with perMinute that claims can take at once, in the project where these are fewest. "
    f"{_MEASURED}",
    (RESOURCE,),
    merge="max",
)
