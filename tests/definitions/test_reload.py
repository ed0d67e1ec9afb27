"""Changes on disk: noticed automatically, applied atomically, and only changed files are read again."""

from __future__ import annotations

import contextlib
import errno
import gc
import logging
import multiprocessing
import os
import resource
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.definitions import Definitions, files, shared_definitions
from tests.support.wait import wait_until_sync
from tests.support.workflows import Tree

POLL = 0.02
READ = "definitions read from"


@pytest.fixture
def live(tree: Tree) -> Iterator[Definitions]:
    tree.workflow("one", "a", "b")
    definitions = Definitions([tree.root], poll_seconds=POLL)
    assert list(definitions.current.workflows) == ["one"]
    yield definitions
    definitions.close()


def test_changes_are_noticed(tree: Tree, live: Definitions) -> None:
    before = live.current
    tree.activity("one", "03", "c")
    wait_until_sync(lambda: "c" in live.current.workflows["one"].activities, what="a new activity")
    assert live.current.version != before.version
    assert live.current.workflows["one"].digest != before.workflows["one"].digest
    assert "c" not in before.workflows["one"].activities
    tree.workflow("two", "x")
    wait_until_sync(lambda: "two" in live.current.workflows, what="a new workflow")
    digest = live.current.workflows["one"].digest
    shutil.rmtree(tree.root / "two")
    wait_until_sync(lambda: "two" not in live.current.workflows, what="a workflow to go")
    assert live.current.workflows["one"].digest == digest


def test_a_file_that_breaks_and_is_fixed(tree: Tree, live: Definitions) -> None:
    path = tree.root / "one/activities/02-b.toon"
    text = path.read_bytes()
    path.write_bytes(b'id: "b\n')
    wait_until_sync(lambda: live.current.problems, what="the problem")
    assert list(live.current.workflows["one"].activities) == ["a"]
    path.write_bytes(text)
    wait_until_sync(lambda: not live.current.problems, what="the file to be sound again")
    assert list(live.current.workflows["one"].activities) == ["a", "b"]


def test_a_change_with_unchanged_time_and_length_is_noticed(tree: Tree, live: Definitions) -> None:
    path = tree.root / "one/activities/02-b.toon"
    before = path.stat()
    path.write_text(path.read_text().replace("The activity b", "The activity x"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    wait_until_sync(
        lambda: live.current.workflows["one"].activities["b"].activity.name == "The activity x", what="the change"
    )


def test_links_are_followed_and_a_dangling_one_hides_nothing(tree: Tree, live: Definitions) -> None:
    folder = tree.root / "one/activities"
    (folder / "00-lost.toon").symlink_to(folder / "nowhere")
    wait_until_sync(lambda: live.current.problems, what="the lost link")
    assert [problem.place for problem in live.current.problems] == ["one/activities/00-lost.toon"]
    elsewhere = tree.write("../elsewhere/c.toon", (folder / "02-b.toon").read_text().replace("id: b", "id: c"))
    (folder / "03-c.toon").symlink_to(elsewhere)
    wait_until_sync(lambda: "c" in live.current.workflows["one"].activities, what="the linked activity")
    elsewhere.write_text(elsewhere.read_text().replace("The activity b", "Another name"))
    wait_until_sync(
        lambda: live.current.workflows["one"].activities["c"].activity.name == "Another name", what="its change"
    )


def test_files_that_still_change_are_not_read(tree: Tree) -> None:
    """A change counts once two polls in a row have seen the same."""
    tree.workflow("one", "a")
    definitions = Definitions([tree.root], poll_seconds=0)
    first = definitions.current
    seen: Any = ()
    for number in range(3):
        tree.activity("one", "05", "growing", more=f"notes[1]: {'x' * number}\n")
        seen = definitions.poll(seen)
        assert definitions.current is first
    definitions.poll(seen)
    assert "growing" in definitions.current.workflows["one"].activities


def test_a_file_that_keeps_changing_delays_no_others(tree: Tree) -> None:
    tree.workflow("one", "a", "b")
    definitions = Definitions([tree.root], poll_seconds=0)
    assert "c" not in definitions.current.workflows["one"].activities
    tree.activity("one", "03", "c")
    seen: Any = ()
    for number in range(4):
        tree.activity("one", "02", "b", more=f"notes[1]: {'x' * number}\n")
        seen = definitions.poll(seen)
    found = definitions.current.workflows["one"].activities
    assert list(found) == ["a", "b", "c"]
    assert "notes" not in found["b"].data
    seen = definitions.poll(seen)
    assert definitions.current.workflows["one"].activities["b"].data["notes"] == ["xxx"]


def test_other_files_make_no_new_library(tree: Tree) -> None:
    tree.workflow("one", "a")
    definitions = Definitions([tree.root], poll_seconds=0)
    before = definitions.current
    tree.write("one/README.md", "for people")
    (tree.root / "one/workflow.toon").touch()
    assert definitions.refresh() is before


def test_only_changed_files_are_read_again(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.workflow("one", "a", "b")
    definitions = Definitions([tree.root], poll_seconds=0)
    before = definitions.current
    read: list[str] = []
    whole = files.read

    def noted(found: files.FoundFile) -> files.File:
        read.append(found.place)
        return whole(found)

    monkeypatch.setattr(files, "read", noted)
    definitions.refresh()
    assert read == []
    tree.activity("one", "02", "b", more="notes[1]: other\n")
    after = definitions.refresh()
    assert read == ["one/activities/02-b.toon"]
    assert after.workflows["one"].activities["a"].data is before.workflows["one"].activities["a"].data


def test_polling_unchanged_folders_reads_nothing(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.workflow("one", "a")
    definitions = Definitions([tree.root], poll_seconds=0)
    assert definitions.current.workflows
    monkeypatch.setattr(files, "scan", lambda root: pytest.fail("nothing has changed"))
    seen: Any = ()
    for _ in range(3):
        seen = definitions.poll(seen)


def test_a_lasting_problem_is_logged_once(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    tree.workflow("one", "a")
    tree.write("one/activities/02-b.toon", 'id: "b')
    definitions = Definitions([tree.root], poll_seconds=0)
    for number in range(3):
        tree.activity("one", "03", "c", more=f"notes[1]: {'x' * number}\n")
        definitions.refresh()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "one/activities/02-b.toon" in warnings[0]


def test_unreadable_files_are_retried(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause may have been outside the file."""
    tree.workflow("one", "a", "b")
    definitions = Definitions([tree.root], poll_seconds=0)
    whole = files.read

    def failing(found: files.FoundFile) -> files.File:
        file = whole(found)
        broken = files.Problem("broken", found.place, None, "cannot be read: Input/output error")
        return replace(file, head=None, problems=(broken,)) if found.id == "b" else file

    with monkeypatch.context() as patched:
        patched.setattr(files, "read", failing)
        assert list(definitions.current.workflows["one"].activities) == ["a"]
    assert list(definitions.refresh().workflows["one"].activities) == ["a", "b"]


@pytest.mark.parametrize("only_known", [True, False])
def test_definitions_stay_while_folders_cannot_be_listed(
    tree: Tree, live: Definitions, caplog: pytest.LogCaptureFixture, only_known: bool
) -> None:
    """Too many open files: no folder can be listed and no file read; all definitions read before stay in force."""
    before = live.current
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if not only_known:
        tree.activity("one", "03", "c")
    taken = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, limit[0]), limit[1]))
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(3):
            assert live.refresh() is before
        wait_until_sync(lambda: "those read before stay in force" in caplog.text, what="the log")
        assert live.current is before
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    tree.activity("one", "04", "d")
    wait_until_sync(lambda: "d" in live.current.workflows["one"].activities, what="the change after it")
    assert live.current.problems == ()
    warnings = [one.getMessage() for one in caplog.records if "stay in force" in one.getMessage()]
    assert len(warnings) <= 2, "as long as it lasts, it is said once for each reason"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_a_temporarily_unreadable_file_keeps_its_content(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    tree.workflow("one", "a", "b")
    definitions = Definitions([tree.root], poll_seconds=0)
    assert list(definitions.current.workflows["one"].activities) == ["a", "b"]
    changed = tree.activity("one", "02", "b", more="description: changed\n")
    tree.activity("one", "03", "c")
    whole = Path.open

    def failing(path: Path, *given: Any, **more: Any) -> Any:
        if path == changed:
            raise OSError(number, os.strerror(number))
        return whole(path, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", failing)
        library = definitions.refresh()
        # The others still change.
        assert list(library.workflows["one"].activities) == ["a", "b", "c"]
        assert "description" not in library.workflows["one"].activities["b"].data
        assert library.problems == ()
    assert definitions.refresh().workflows["one"].activities["b"].data["description"] == "changed"


def test_the_named_folder_of_a_workflow_is_read_again(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.write("one/workflow.toon", "id: one\nversion: 1.0.0\ntitle: One\nactivitiesDir: parts\n")
    tree.write("one/parts/01-a.toon", "id: a\nversion: 1.0.0\nname: A\n")

    def failing(path: Path, *given: Any, **more: Any) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    definitions = Definitions([tree.root], poll_seconds=0)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", failing)
        assert not definitions.current.workflows
    assert list(definitions.refresh().workflows["one"].activities) == ["a"]


def test_a_defect_does_not_end_the_polling(
    tree: Tree, live: Definitions, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed = threading.Event()

    def fail(_: object) -> bool:
        failed.set()
        raise RuntimeError

    with monkeypatch.context() as defect:
        defect.setattr(files, "is_folder", fail)
        assert failed.wait(60)
    tree.activity("one", "03", "c")
    wait_until_sync(lambda: "c" in live.current.workflows["one"].activities, what="a new activity")
    assert "looking for changed definitions failed" in caplog.text


def test_polling_pauses_and_ends_on_close(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    threads = {*threading.enumerate()}
    definitions = Definitions([tree.root], poll_seconds=3600)
    definitions.start()
    (thread,) = (one for one in threading.enumerate() if one.name == "definitions" and one not in threads)
    wait_until_sync(lambda: READ in caplog.text, what="the first reading, at once")
    definitions.close()
    thread.join(60)
    assert not thread.is_alive()


def test_nothing_is_read_before_it_is_needed(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    tree.workflow("one", "a")
    threads = {*threading.enumerate()}
    definitions = Definitions([tree.root], poll_seconds=POLL)
    assert not {*threading.enumerate()} - threads  # other threads may end meanwhile
    assert READ not in caplog.text
    definitions.start()
    wait_until_sync(lambda: READ in caplog.text, what="reading in the background")
    assert list(definitions.current.workflows) == ["one"]
    definitions.close()


def test_a_forked_process_starts_over(tree: Tree) -> None:
    tree.workflow("one", "a")
    definitions = Definitions([tree.root], poll_seconds=POLL)
    assert list(definitions.current.workflows) == ["one"]
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_in_child, args=(definitions, theirs, str(tree.root)))
    child.start()
    assert ours.poll(20)
    assert ours.recv() == ["one", "two"]
    child.join()
    definitions.close()


def _in_child(definitions: Definitions, pipe: Any, root: str) -> None:
    Tree(Path(root)).workflow("two", "b")
    found: list[str] = []
    for _ in range(500):
        found = list(definitions.current.workflows)
        if len(found) > 1:
            break
        threading.Event().wait(POLL)
    pipe.send(found)


def test_a_process_shares_definitions_and_releases_them(tree: Tree) -> None:
    tree.workflow("one", "a")
    first = shared_definitions([str(tree.root)])
    assert shared_definitions([f"{tree.root}/."]) is first
    assert shared_definitions([str(tree.root), str(tree.root)]) is not first
    assert len(first.current.workflows) == 1
    watching = {thread.ident for thread in threading.enumerate() if thread.name == "definitions"}
    del first
    gc.collect()
    wait_until_sync(
        lambda: watching - {thread.ident for thread in threading.enumerate()}, what="the thread of what is not used"
    )
