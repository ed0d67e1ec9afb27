"""The numbers survive the processes that keep them."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import mmap
import os
import resource
import subprocess
import threading
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from coordinator.metrics import (
    OTHER,
    SLOT,
    Counter,
    Exposition,
    Gauge,
    Label,
    MemoryCells,
    Metric,
    Recording,
    SharedCells,
    SlotBusy,
    clear_free_slots,
    forget_gauges,
    process,
    reserved_slots,
    slot_is_free,
)
from coordinator.metrics.growth import Growth
from coordinator.metrics.hot import Hot, publish, published
from coordinator.metrics.process import CONFIG_INFO
from coordinator.metrics_catalogue import CATALOGUE
from coordinator.overload.metrics import SHED
from coordinator.processes.frontend import start_metrics
from coordinator.store.metrics import script_ended
from coordinator.toolsets.items.metrics.claims import AGENTS_WAITING, CLAIMS
from coordinator.toolsets.items.metrics.usage import KINDS, PROJECT_BUDGET, TOKENS
from coordinator.transport.calls import count_answer
from coordinator.transport.metrics import INFLIGHT, REQUESTS
from tests.support.counts import recorded_in
from tests.support.fleets import environment, samples, started
from tests.support.template import Forked
from tests.support.users import common_folder, without_privileges

Start = Callable[[dict[str, int]], list[subprocess.Popen[bytes] | Forked]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processes, ``{slot: calls}``, and returns them once they have counted their calls."""
    running: list[subprocess.Popen[bytes] | Forked] = []

    def begin(calls: dict[str, int]) -> list[subprocess.Popen[bytes] | Forked]:
        reading, writing = os.pipe()
        with open(os.devnull, "rb") as nothing, open(reading) as said, open(writing, "wb") as out:
            new = [
                started(
                    (str(tmp_path / "m"), slot, str(count)),
                    environment(),
                    nothing,
                    out,
                    out,
                    module="tests.metrics.counting",
                )
                for slot, count in calls.items()
            ]
            running.extend(new)
            assert [said.readline() for _ in new] == ["counted\n"] * len(new)
        return new

    yield begin
    for one in running:
        kill(one)


def kill(process: subprocess.Popen[bytes] | Forked) -> None:
    process.kill()
    process.wait()


def plainly_read(text: bytes) -> dict[str, float]:
    """What prometheus-client's own parser finds, in the form of ``samples``."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_counters_are_right_over_four_processes_with_kills_and_restarts(tmp_path: Path, start: Start) -> None:
    exposition = Exposition(tmp_path / "m")
    files: list[set[str]] = []
    for round_number in (1, 2):
        processes = start({f"fe-{slot}": 500 + slot for slot in range(4)})
        total = round_number * sum(500 + slot for slot in range(4))
        assert samples(exposition.text())["coordinator_requests_total{outcome=ok,tool=claim_item}"] == total
        for one in processes:
            kill(one)
        seen = samples(exposition.text())
        assert seen == plainly_read(exposition.text())
        assert seen["coordinator_requests_total{outcome=ok,tool=claim_item}"] == total
        assert seen["coordinator_request_duration_seconds_count{tool=claim_item,transport=fast}"] == total
        assert seen["coordinator_slot_requests_total{slot=fe-3}"] == 503 * round_number
        files.append({path.name for path in (tmp_path / "m").iterdir()})
    assert files[0] == files[1], "files grow with processes instead of slots"


def test_shed_calls_have_no_duration(tmp_path: Path) -> None:
    with recorded_in(Recording(SharedCells(tmp_path, "fe-0"), "fe-0")):
        count_answer("claim_item", "ok", "fast", 0.2)
        count_answer("claim_item", "shed", "fast", None)
    seen = samples(Exposition(tmp_path).text())
    assert seen["coordinator_requests_total{outcome=shed,tool=claim_item}"] == 1
    assert seen["coordinator_slot_requests_total{slot=fe-0}"] == 2
    assert seen["coordinator_request_duration_seconds_count{tool=claim_item,transport=fast}"] == 1


def test_gauges_of_a_dead_process_are_not_counted(tmp_path: Path, start: Start) -> None:
    directory = tmp_path / "m"
    first, _ = start({"fe-0": 1, "fe-1": 1})
    kill(first)
    publish(directory, "fe-0", [Hot("p", "a", 3.0)])
    forget_gauges(directory, "fe-0")
    assert published(directory, 9) == []
    seen = samples(Exposition(directory).text())
    assert "coordinator_inflight{slot=fe-0}" not in seen
    assert seen["coordinator_inflight{slot=fe-1}"] == 1


def test_gauges_of_a_killed_process_without_a_supervisor_are_not_counted(tmp_path: Path, start: Start) -> None:
    """Such as a worker in a systemd unit of its own: while it is counted, NoWorkers does not fire."""
    directory = tmp_path / "m"
    first, _ = start({"fe-0": 1, "fe-1": 1})
    exposition = Exposition(directory)
    assert samples(exposition.text())["coordinator_inflight{slot=fe-0}"] == 1
    before = samples(exposition.text())["coordinator_slot_requests_total{slot=fe-0}"]
    kill(first)
    seen = samples(exposition.text())
    assert seen.get("coordinator_inflight{slot=fe-0}", 0) == 0
    assert seen["coordinator_inflight{slot=fe-1}"] == 1
    assert seen["coordinator_slot_requests_total{slot=fe-0}"] == before, "its counters stay"


def test_a_full_disk_hides_no_metrics(tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a slot is free cannot be checked then, and that is when the metrics matter."""
    directory = tmp_path / "m"
    (process,) = start({"fe-0": 3})
    kill(process)
    open_file = os.open

    def full(path: Path, flags: int, *more: int) -> int:
        if flags & os.O_CREAT and not Path(path).exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return open_file(path, flags, *more)

    monkeypatch.setattr("coordinator.metrics.slots.os.open", full)
    assert samples(Exposition(directory).text())["coordinator_slot_requests_total{slot=fe-0}"] == 3


def test_a_restarted_process_begins_with_fresh_gauges(tmp_path: Path) -> None:
    exposition = Exposition(tmp_path)
    first = Recording(SharedCells(tmp_path, "fe-0"), "fe-0")
    first.of(INFLIGHT)["fe-0",].set(5)
    assert samples(exposition.text())["coordinator_inflight{slot=fe-0}"] == 5
    first.close()
    second = Recording(SharedCells(tmp_path, "fe-0"), "fe-0")
    second.of(INFLIGHT)["fe-0",].set(1)
    assert samples(exposition.text())["coordinator_inflight{slot=fe-0}"] == 1
    second.close()


def test_a_new_file_is_told_apart_by_more_than_its_inode(tmp_path: Path) -> None:
    before, after = (Recording(SharedCells(tmp_path / name, "fe-0"), "fe-0") for name in ("before", "after"))
    exposition = Exposition(tmp_path / "before")
    before.of(CONFIG_INFO)["1", "first"].set(1)
    exposition.text()
    after.of(CONFIG_INFO)["2", "second version"].set(1)
    after.of(AGENTS_WAITING)["fe-0",].set(3)
    for file in (tmp_path / "after").glob("gauge_*.db"):
        # The kernel gives the inode of a file that was deleted to one of the next.
        (tmp_path / "before" / file.name).write_bytes(file.read_bytes())
    assert exposition.text() == Exposition(tmp_path / "after").text()
    before.close()
    after.close()


def test_files_of_another_user_are_left_out() -> None:
    """As those of a runner of root in the directory that FLEET_METRICS_DIR names."""
    with common_folder() as directory:
        theirs = Recording(SharedCells(directory, "run-0"), "run-0")
        theirs.of(CLAIMS)["success",].inc()
        for path in directory.iterdir():
            path.chmod(0 if os.geteuid() else 0o600)
        with without_privileges():
            ours = Recording(SharedCells(directory, "fe-0"), "fe-0")
            ours.of(CLAIMS)["success",].inc()
            assert b'coordinator_claims_total{outcome="success"} 1.0' in Exposition(directory).text()
            assert not slot_is_free(directory, "run-0")
            with reserved_slots(directory, "run", 1) as slots:
                assert slots == ["run-1"]
            ours.close()
            clear_free_slots(directory)
        theirs.close()
        assert {path.name.rpartition("_")[2] for path in directory.glob("*.db")} == {"run-0.db"}


@pytest.mark.parametrize("left", [b"", bytes(4096)], ids=["empty", "zeros"])
def test_a_file_damaged_by_a_power_failure_blocks_nobody(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "counter_fe-0.db").write_bytes(left)
    exposition = Exposition(tmp_path)
    assert exposition.text() == b""
    recording = Recording(SharedCells(tmp_path, "fe-0"), "fe-0")
    recording.of(CLAIMS)["success",].inc()
    assert b'coordinator_claims_total{outcome="success"} 1.0' in exposition.text()
    recording.close()


@pytest.mark.parametrize("at", [0, 8, 20, 150])
@pytest.mark.parametrize("left", [bytes(4096), b"\xff" * 4096, b"\x7f" * 4096, b" " * 4096])
def test_a_file_damaged_by_a_power_failure_is_skipped_and_recreated(tmp_path: Path, left: bytes, at: int) -> None:
    for slot in ("fe-0", "fe-1"):
        recording = Recording(SharedCells(tmp_path, slot), slot)
        recording.of(CLAIMS)["success",].inc()
        recording.of(CLAIMS)["not_found",].inc()
        recording.close()
    with (tmp_path / "counter_fe-0.db").open("r+b") as file:
        file.seek(at)
        file.write(left)
    exposition = Exposition(tmp_path)
    for _ in range(2):
        assert b'coordinator_claims_total{outcome="success"} 1.0' in exposition.text()
    recording = Recording(SharedCells(tmp_path, "fe-0"), "fe-0")
    recording.of(CLAIMS)["success",].inc()
    assert b'coordinator_claims_total{outcome="success"} 2.0' in exposition.text()
    recording.close()


def test_a_file_that_grows_while_it_is_read_is_counted_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells, real = SharedCells(tmp_path, "fe-0"), mmap.mmap
    cells.number(CLAIMS, {"outcome": "success"}).inc()

    def growing(*args: Any, **more: Any) -> mmap.mmap:
        monkeypatch.setattr(mmap, "mmap", real)
        memory = real(*args, **more)
        for number in range(1_000):
            cells.number(CLAIMS, {"outcome": str(number)})
        return memory

    monkeypatch.setattr(mmap, "mmap", growing)
    exposition = Exposition(tmp_path)
    for series in (1, 1_001):
        seen = samples(exposition.text())
        assert (len(seen), seen["coordinator_claims_total{outcome=success}"]) == (series, 1)
    cells.close()


def test_two_living_processes_cannot_share_a_slot(tmp_path: Path) -> None:
    cells = SharedCells(tmp_path, "fe-0")
    assert not slot_is_free(tmp_path, "fe-0")
    with pytest.raises(SlotBusy, match="another process is running as fe-0"):
        SharedCells(tmp_path, "fe-0")
    cells.close()
    assert slot_is_free(tmp_path, "fe-0")
    SharedCells(tmp_path, "fe-0").close()


def test_a_supervisor_clears_only_unused_slots(tmp_path: Path) -> None:
    dead, living = (Recording(SharedCells(tmp_path, slot), slot) for slot in ("fe-0", "fe-1"))
    for recording in (dead, living):
        with recorded_in(recording):
            count_answer("claim_item", "ok", "fast", 0.1)
        publish(tmp_path, recording.slot, [Hot("p", recording.slot, 3.0)])
    dead.close()
    clear_free_slots(tmp_path)
    seen = samples(Exposition(tmp_path).text())
    assert seen["coordinator_requests_total{outcome=ok,tool=claim_item}"] == 1
    assert "coordinator_slot_requests_total{slot=fe-0}" not in seen
    assert not list(tmp_path.glob("*fe-0*"))
    assert published(tmp_path, 9) == [Hot("p", "fe-1", 3.0)]
    living.close()


def test_an_open_label_has_a_limited_number_of_values() -> None:
    some = Counter("coordinator_some_total", "things", "Some things.", (Label("name", limit=3),))
    family = Recording(MemoryCells()).of(some)
    for name in ("a", "b", "c", "d", "e", "a"):
        family[name,].inc()
    assert {values: cell.value for values, cell in family.items()} == {("a",): 2, ("b",): 1, ("c",): 1, (OTHER,): 2}


def test_files_grow_and_cells_from_before_stay_right(tmp_path: Path) -> None:
    wide = Counter("coordinator_wide_total", "things", "x" * 500, (Label("name", limit=1000),))
    cells = SharedCells(tmp_path, "fe-0")
    family = Recording(cells).of(wide)
    early = family["early",]
    for number in range(500):
        family[f"n{number}",].inc(number)
    early.inc(7)
    seen = samples(Exposition(tmp_path).text())
    assert seen["coordinator_wide_total{name=early}"] == 7
    assert [seen[f"coordinator_wide_total{{name=n{number}}}"] for number in range(500)] == list(range(500))
    cells.close()
    assert next(tmp_path.glob("*.db")).stat().st_size > 1 << 16


def test_changes_from_many_threads_all_count(tmp_path: Path) -> None:
    cells = SharedCells(tmp_path, "w-0")
    cell = cells.number(REQUESTS, {"tool": "a", "outcome": "ok"})

    def change() -> None:
        for _ in range(50_000):
            cell.inc()

    threads = [threading.Thread(target=change) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cell.value == 200_000
    cells.close()


def test_a_full_disk_loses_only_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = SharedCells(tmp_path, "fe-0")
    kept = cells.number(REQUESTS, {"tool": "kept", "outcome": "ok"})
    (file,) = tmp_path.glob("*.db")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size, limits[1]))  # no file grows beyond it
    try:
        for number in range(1000):
            cells.number(REQUESTS, {"tool": f"t{number}", "outcome": "ok"}).inc()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    kept.inc()
    seen = samples(Exposition(tmp_path).text())
    assert seen["coordinator_requests_total{outcome=ok,tool=kept}"] == 1
    assert len(seen) < 1000
    cells.close()


@pytest.mark.parametrize("again", [False, True])
def test_a_removed_file_loses_only_metrics(tmp_path: Path, again: bool) -> None:
    cells = SharedCells(tmp_path, "fe-0")
    kept = cells.number(REQUESTS, {"tool": "kept", "outcome": "ok"})
    for number in range(1000):
        cells.number(REQUESTS, {"tool": f"before{number}", "outcome": "ok"}).inc()
    for path in tmp_path.iterdir():
        path.unlink()
    others = SharedCells(tmp_path, "fe-0") if again else None
    if others is not None:
        others.number(REQUESTS, {"tool": "other", "outcome": "ok"}).inc()
    for number in range(2000):
        cells.number(REQUESTS, {"tool": f"after{number}", "outcome": "ok"}).inc()
    kept.inc()
    assert kept.value == 1
    if others is not None:
        assert samples(Exposition(tmp_path).text())["coordinator_requests_total{outcome=ok,tool=other}"] == 1
        others.close()
    cells.close()


def test_the_text_is_that_of_the_library(tmp_path: Path) -> None:
    """Same files, read by prometheus-client's own collector."""
    recordings = [Recording(SharedCells(tmp_path, slot), slot) for slot in ("fe-0", "fe-1", "w-0")]
    for number, recording in enumerate(recordings):
        with recorded_in(recording):
            start_metrics(["claim_item", "get_context"], ["items/claim"])
            process.note_build("1.0")
            INFLIGHT.set(number)
            for outcome in ("ok", "conflict"):
                count_answer("claim_item", outcome, "sdk", 0.004 * number)
                script_ended("items/claim", 10.0**-number, "ok")
            process.loop_lag("frontend", 7)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(tmp_path))
    assert samples(Exposition(tmp_path).text()) == samples(generate_latest(registry))
    for recording in recordings:
        recording.close()


def test_label_values_are_bounded(tmp_path: Path) -> None:
    cells = SharedCells(tmp_path, "fe-0")
    with recorded_in(Recording(cells, "fe-0")):
        start_metrics(["claim_item"], ["items/claim"])
        for number in range(10_000):
            count_answer(f"made-up-{number}", f"outcome-{number}", f"transport-{number}", 0.1)
            script_ended(f"made-up-{number}", 0.1, "ok")
    seen = samples(Exposition(tmp_path).text())
    assert seen["coordinator_requests_total{outcome=other,tool=other}"] == 10_000
    assert len(seen) < 400
    cells.close()


def test_quotes_and_line_breaks_in_labels_are_escaped(tmp_path: Path) -> None:
    recording = Recording(SharedCells(tmp_path, "fe-0"), "fe-0")
    with recorded_in(recording):
        process.note_build('1.0 "beta"\\\n')
    assert 'version="1.0 \\"beta\\"\\\\\\n"' in Exposition(tmp_path).text().decode()
    recording.close()


def test_series_of_a_whole_host_stay_under_five_thousand(tmp_path: Path) -> None:
    """Every combination that 40 tools and 25 scripts can make, on 8 front-ends and 8 workers."""
    recordings = [Recording(SharedCells(tmp_path, slot), slot) for slot in [f"{p}-{n}" for p in "fw" for n in range(8)]]
    tools, scripts = [f"tool_{n}" for n in range(40)], [f"package/script_{n}" for n in range(25)]
    for recording in recordings:
        with recorded_in(recording):
            start_metrics(tools, scripts)
            process.sample()
            for tool in tools:
                for transport in ("fast", "sdk"):
                    count_answer(tool, "ok", transport, 0.1)
            for script in scripts:
                for outcome in ("ok", "refused", "error"):
                    script_ended(script, 0.1, outcome)
    assert len(samples(Exposition(tmp_path).text())) < 5000
    for recording in recordings:
        recording.close()


def test_memory_cells_hold_the_same_numbers() -> None:
    cells = MemoryCells()
    with recorded_in(Recording(cells)):
        count_answer("claim_item", "ok", "stdio", 0.3)
        count_answer("claim_item", "ok", "stdio", 7.0)
    assert cells.number(REQUESTS, {"tool": "claim_item", "outcome": "ok"}).value == 2


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_the_catalogue_keeps_the_naming_rules(metric: Metric[Any]) -> None:
    assert metric.name.startswith("coordinator_")
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    if metric.unit in ("seconds", "bytes"):
        assert metric.name.removesuffix("_total").endswith("_" + metric.unit)
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert list(metric.buckets) == sorted(metric.buckets)
    assert metric.meaning.endswith(".")
    assert all(bool(label.values) != bool(label.limit) for label in metric.dimensions)
    json.dumps(metric.meaning)


def test_concurrent_starts_get_different_slots(tmp_path: Path) -> None:
    directory = tmp_path / "m"
    with reserved_slots(directory, "fe", 2) as mine, reserved_slots(directory, "fe", 2) as other:
        assert (mine, other) == (["fe-0", "fe-1"], ["fe-2", "fe-3"])
        clear_free_slots(directory)
        assert not slot_is_free(directory, "fe-1")
        # The children own what was set aside for them.
        child = SharedCells(directory, "fe-0")
    assert [slot for slot in (*mine, *other) if slot_is_free(directory, slot)] == ["fe-1", "fe-2", "fe-3"]
    with reserved_slots(directory, "fe", 1) as later:
        assert later == ["fe-1"]
    child.close()
    clear_free_slots(directory)
    assert list(directory.iterdir()) == []


def test_a_lock_that_is_deleted_while_it_is_taken_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    calls = []

    def deleted_before(descriptor: int, how: int) -> None:
        calls.append(how)
        if len(calls) == 1:
            (tmp_path / "fe-0.lock").unlink()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", deleted_before)
    cells = SharedCells(tmp_path, "fe-0")
    assert len(calls) == 2
    assert not slot_is_free(tmp_path, "fe-0")
    cells.close()


def open_label(metric: Metric[Any]) -> int | None:
    """Which label has an open set of values; None: none, or only that of the process."""
    return next((n for n, label in enumerate(metric.dimensions) if label.limit and label != SLOT), None)


def test_other_is_the_sum_of_what_it_stands_for_or_the_largest_share() -> None:
    """Of every gauge with an open label, but for those by process, and those that are always 0 or 1."""
    many = {f"name-{n:03}": n + 1 for n in range(150)}
    infos = "coordinator_build_info", "coordinator_config_info"
    gauges = [one for one in CATALOGUE if isinstance(one, Gauge) and one.name not in infos]
    measured = {gauge: at for gauge in gauges if (at := open_label(gauge)) is not None}
    assert len(measured) == 13

    def record(numbers: dict[str, int]) -> None:
        for gauge, at in measured.items():
            values = product(*(label.values or numbers for label in gauge.dimensions))
            gauge.set_all({labels: numbers[labels[at]] for labels in values})

    record(dict(sorted(many.items(), reverse=True)))  # the smallest last
    for gauge, at in measured.items():
        found = {labels: cell.value for labels, cell in gauge.cells.items()}
        assert any(OTHER in labels for labels in found), gauge
        if gauge.together == "max":
            left = max(many.values()) - gauge.dimensions[at].limit
            assert max(value for labels, value in found.items() if OTHER in labels) == left, gauge
        else:
            others = [len(label.values) for label in gauge.dimensions if label.values]
            assert sum(found.values()) == math.prod(others) * sum(many.values()), gauge
    record({"name-149": 7})
    tokens = sum(cell.value for cell in TOKENS.cells.values())
    assert tokens == 7 * len(KINDS), "what is not there any more counts as 0"
    assert max(cell.value for cell in PROJECT_BUDGET.cells.values()) == 7


def test_a_rate_is_that_since_the_last_look() -> None:
    growth = Growth(SHED, "class")
    for _ in range(7):
        SHED.labels("normal", "over_capacity").inc()
        SHED.labels("normal", "draining").inc()
        SHED.labels("sheddable", "draining").inc()
    found = growth.per_second()
    assert found.keys() == {"normal", "sheddable"}
    assert found["normal"] == 2 * found["sheddable"] > 0
    assert growth.per_second() == {"normal": 0, "sheddable": 0}
