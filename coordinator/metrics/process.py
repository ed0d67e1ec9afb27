"""What every kind of process records of itself: lag, resources, and what it runs."""

from __future__ import annotations

import platform
import resource
import sys
import time

from coordinator.metrics.labels import SLOT, Label
from coordinator.metrics.metric import Counter, Gauge, Histogram
from coordinator.metrics.recording import recording

ROLE = Label("role", ("frontend", "worker", "store", "supervisor"))
LOOP_LAG = Histogram(
    "coordinator_event_loop_lag_seconds",
    "seconds",
    "How late the event loop runs a timer: time during which a process answers no call.",
    (ROLE,),
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
)
CPU = Counter(
    "coordinator_process_cpu_seconds_total",
    "seconds",
    "Processor time used, user and system, by all processes that have lived in the slot.",
    (SLOT,),
)
MEMORY = Gauge("coordinator_process_resident_memory_bytes", "bytes", "Resident memory of each process.", (SLOT,))
BUILD_INFO = Gauge(
    "coordinator_build_info",
    "info",
    "Always 1; the labels say what is running.",
    (Label("version", limit=4), Label("python", limit=4)),
    merge="max",
    together="max",
)
CONFIG_INFO = Gauge(
    "coordinator_config_info",
    "info",
    "1 for the settings in force, 0 for earlier ones; hash covers all settings, version those that a reload can "
    "change and tools use. Two versions at 1 mean front-ends or workers that differ.",
    (Label("hash", limit=64), Label("version", limit=64)),
    merge="max",
    together="max",
)


def loop_lag(role: str, seconds: float) -> None:
    """A timer of the event loop ran this late."""
    LOOP_LAG.labels(role).observe(seconds)
    own = recording()
    own.worst_lag = max(own.worst_lag, seconds)


def take_worst_lag() -> float:
    """The longest ``loop_lag`` since the last call of this function, in seconds."""
    own = recording()
    worst, own.worst_lag = own.worst_lag, 0.0
    return worst


def sample() -> None:
    """Samples CPU time and memory; to be called about once a second."""
    own, used = recording(), time.process_time()
    CPU.inc(used - own.cpu_seen)
    own.cpu_seen = used
    MEMORY.set(_resident_bytes())


def note_build(version: str) -> None:
    BUILD_INFO.labels(version, platform.python_version()).set(1)


def note_settings(digest: str, version: str) -> None:
    recording().config_version = version
    for earlier in CONFIG_INFO.cells.values():
        earlier.set(0)
    CONFIG_INFO.labels(digest, version).set(1)


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        # Systems other than Linux report only the highest value so far, in KiB or bytes.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
