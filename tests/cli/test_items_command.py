"""``fleet items``, over a running fleet: what people and agents with a shell do."""

from __future__ import annotations

import io
import json
import os
import pty
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli import run as fleet_main
from coordinator.cli.exits import Exit
from coordinator.client import SyncFleet
from tests.support.fleets import RunningFleet

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("items")
    settings = {"FLEET_ATTEMPTS_MAX": "2", "FLEET_ATTEMPTS_BACKOFF_SECONDS": "600"}
    with RunningFleet(folder / "data", "--port", "0", "--frontends", "1", "--workers", "0", **settings) as running:
        running.wait_ready()
        yield running


@pytest.fixture
def items(
    fleet: RunningFleet, project: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs ``fleet items`` in this process: exit code, stdout, stderr."""
    for name in [name for name in os.environ if name.startswith("FLEET_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FLEET_DATA_DIR", str(fleet.data_dir))
    monkeypatch.setenv("FLEET_PROJECT", project)
    monkeypatch.setenv("FLEET_AGENT", "tester")

    def run(line: str, *more: str) -> tuple[int, str, str]:
        code = fleet_main(["items", *shlex.split(line), *more])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def added(items: Run, title: str = "x", *more: str) -> str:
    code, out, err = items("add --json", title, *more)
    assert code == Exit.OK, err
    return str(json.loads(out)["id"])


def shown(items: Run, item: str) -> Any:
    code, out, err = items(f"show {item} --json")
    assert code == Exit.OK, err
    return json.loads(out)


@pytest.mark.parametrize(
    ("encoding", "title"),
    [("latin-1", "Caf\u00e9 ??"), ("ascii:surrogateescape", "Caf? ??"), ("utf-8", "Caf\u00e9 \u4f60\U0001f600")],
)
def test_letters_that_the_encoding_of_the_output_does_not_have_are_replaced(
    items: Run, encoding: str, title: str
) -> None:
    item = added(items, given := "Caf\u00e9 \u4f60\U0001f600")

    def printed(*words: str) -> str:
        command = [sys.executable, "-m", "coordinator", "items", *words]
        ended = subprocess.run(
            command, env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, check=True, timeout=120
        )
        return ended.stdout.decode(encoding.partition(":")[0])

    assert title in printed("list")
    assert json.loads(printed("show", item, "--json"))["item"]["title"] == given


def test_an_item_from_its_creation_to_its_result(items: Run) -> None:
    parent = added(items, "Parent")
    first = added(items, "First", "--parent", parent[:8], "--priority", "high", "--tags", "api")
    second = added(items, "Second", "--parent", parent, "--after", first[:12])
    ready = items("ready --priority high")[1].split()
    assert ready == [first[:8], "queue", "high", "First", "#api"]
    assert items(f"note {first} findings", "two\nlines")[0] == Exit.OK
    assert items(f"note {first} findings")[1] == "two\nlines\n"
    assert items(f"start {first[:8]}")[1].splitlines() == [
        f"{first[:8]}  started: queue -> work (in-progress)",
        f"{parent[:8]}  followed: queue -> work",
    ]
    code, out, err = items(f"done {second}")
    assert (code, out) == (Exit.FAILED, "")
    assert "fleet: " + second in err
    done = items(f"done {first}", "--result", "merged", "--summary", "all good")[1]
    assert f"{second[:8]}  waits for nothing now: Second" in done
    page = items(f"show {second}")[1]
    assert f"waits for {first[:8]} (terminal) First" in page
    assert f"result of {first[:8]} First\n    merged" in page
    assert "complete by tester: all good" in items(f"show {first} --history")[1]
    assert [line.split()[0] for line in items(f"tree {parent}")[1].splitlines()] == [
        parent[:8],
        first[:8],
        second[:8],
    ]
    assert [line[:8] for line in items("list")[1].splitlines()] == [parent[:8], second[:8]]
    assert items("search FIRST")[1].startswith(first[:8])


def test_json_is_what_the_tools_answer(items: Run) -> None:
    item = added(items)
    assert json.loads(items("list --json")[1])["items"][0]["id"] == item
    assert json.loads(items("ready --json")[1])["recommendations"][0]["itemId"] == item
    tree = json.loads(items("tree --json")[1])
    assert tree == {"items": tree["items"], "truncated": False}
    claimed = json.loads(items(f"claim {item} --json")[1])
    assert claimed["outcome"] == "success"
    moved = json.loads(items(f"start {item} --fence {claimed['fenceToken']} --json")[1])
    assert moved["results"][0]["newRole"] == "work"
    assert json.loads(items(f"edit {item} --title y --json")[1])["id"] == item
    assert json.loads(items(f"note {item} k v --json")[1])["notes"][0]["key"] == "k"
    assert json.loads(items(f"release {item} --json")[1])["releaseResults"][0]["outcome"] == "success"
    code, out, _ = items(f"done {item} 00000000 --json")
    assert code == Exit.FAILED
    assert [one["applied"] for one in json.loads(out)["results"]] == [True, False]


def test_json_of_lists_has_resources_times_and_budgets_where_they_are_set(items: Run) -> None:
    plain = added(items, "find plain")
    given = (
        "--resources",
        "gpu=shared",
        "--not-before",
        "2020-01-01T00:00:00Z",
        "--due",
        "+2h",
        "--budget",
        "tokens=9",
    )
    item = added(items, "find rich", "--parent", plain, *given)
    expected = {name: shown(items, item)["item"][name] for name in ("resources", "notBefore", "dueAt", "budget")}
    for line in ("list --json", "search find --json", f"tree {plain} --json", "tree --json"):
        top = json.loads(items(line)[1])["items"]
        rows = {row["id"]: row for row in (*top, *top[0].get("children", []))}
        assert rows[item].items() >= expected.items(), line
        assert not rows[plain].keys() & expected.keys(), line


def test_the_item_of_a_run_is_a_dot(items: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = items("show")
    assert code == Exit.USAGE
    assert "FLEET_ITEM_ID" in err
    item = added(items, "The one")
    monkeypatch.setenv("FLEET_ITEM_ID", item)
    assert "The one" in items("show")[1]
    assert items("start")[0] == Exit.OK
    assert items("note . log text")[0] == Exit.OK
    assert items("done .")[0] == Exit.OK


def test_stdin_has_ids_and_texts(items: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stdin(text: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))

    first, second = added(items, "a"), added(items, "b", "--description", "-starts with a dash")
    stdin(items("ready")[1].encode())
    assert items("start -")[1].count("started") == 2
    stdin(b"long\ntext")
    assert items(f"edit {first} --description -")[0] == Exit.OK
    assert shown(items, first)["item"]["description"] == "long\ntext"
    assert shown(items, second)["item"]["description"] == "-starts with a dash"
    (tmp_path / "t").write_text("from a file")
    assert items(f"note {first} k @{tmp_path / 't'}")[0] == Exit.OK
    assert items(f"note {first} k")[1] == "from a file\n"
    assert items(f"note {first} k @@mention")[0] == Exit.OK
    assert items(f"note {first} k")[1] == "@mention\n"
    stdin(b"\xff\xfe")
    assert items(f"note {first} k -")[0] == Exit.USAGE
    stdin(b"\n")
    assert items("start -")[0] == Exit.USAGE


def test_dependencies(items: Run) -> None:
    one, two, three = (added(items, title) for title in "abc")
    assert items(f"dep add {one[:8]} {two[:8]} {three}")[1].splitlines() == [
        f"{one[:8]}  waits for {two[:8]}",
        f"{one[:8]}  waits for {three[:8]}",
    ]
    code, _, err = items(f"dep add {two} {one}")
    assert code == Exit.FAILED
    assert "cycle" in err
    assert items(f"dep rm {two} {one}")[1] == "1 dependency deleted\n"
    assert items(f"dep rm {two} {one}")[0] == Exit.FAILED
    code, _, err = items("add late --after", "00000000")
    assert code == Exit.FAILED
    assert items("search late")[1] == "", "an item was added without its dependency"


def test_questions_quarantine_and_back_off(items: Run, fleet: RunningFleet, project: str) -> None:
    item = added(items)
    assert items(f"answer {item} yes")[0] == Exit.FAILED, "it asks nothing"
    items(f"start {item}")
    assert items(f"block {item}", "--reason", "which one?")[0] == Exit.OK
    assert items(f"answer {item}", " ")[0] == Exit.USAGE
    assert items(f"answer {item}", "the second")[1] == f"{item[:8]}  answered: blocked -> work\n"
    assert items(f"note {item} answer")[1] == "the second\n"
    assert items(f"note {item} question-1 'first?'")[0] == Exit.FAILED, "nobody has asked it"
    asking = added(items)
    with SyncFleet(fleet.state.base_url, project=project, agent="asker") as asker:
        for number, said in enumerate(("yes", "no"), 1):
            assert asker.call("work_next", {"waitMs": 0}, toolset="worker")["item"]["id"] == asking
            asker.call("work_ask", {"question": "which?"}, toolset="worker")
            assert items(f"answer {asking} {said}")[0] == Exit.OK
            assert items(f"note {asking} answer-{number}")[1] == f"{said}\n"
            assert ", tester)" in items(f"show {asking}")[1].partition(f"note answer-{number}")[2].partition("\n")[0]
    code, _, err = items(f"retry {item}")
    assert code == Exit.FAILED
    assert "in no back-off" in err
    for count in (1, 2):
        assert items(f"claim {item}")[0] == Exit.OK
        assert items(f"release {item} --reason failed", "--detail", "no network")[0] == Exit.OK
        found = shown(items, item)
        assert found["attempts"]["count"] == count
        assert ("notBefore" in found["attempts"]) == (count == 1)
        assert "attempts" in items(f"show {item}")[1]
        assert items(f"retry {item}")[0] == Exit.OK
        found = shown(items, item)
        assert found["item"]["role"] == "work"
        assert "notBefore" not in found["attempts"]
        assert "retryBackoffSeconds" not in found["item"], "the field has changed"


def test_claims(items: Run) -> None:
    item = added(items, "c", "--tags", "only-this")
    out = items("claim --tags only-this --ttl 60")[1]
    assert out.startswith(f"{item}  claimed until ")
    code, _, err = items(f"claim {item} --agent other")
    assert code == Exit.FAILED
    assert "another agent holds it" in err
    code, _, err = items(f"start {item} --agent other")
    assert code == Exit.FAILED
    assert items("claim --tags nothing-has-this")[0] == Exit.FAILED
    added(items, "holds", "--tags", "holder", "--resources", "key/of-claims")
    busy = added(items, "waits", "--tags", "busy", "--resources", "key/of-claims")
    added(items, "later", "--tags", "busy", "--not-before", "+1h")
    assert items("claim --tags holder --agent other")[0] == Exit.OK
    assert "busy: key/of-claims" in items(f"claim {busy}")[2]
    why = "1 not before a later time, 1 waiting for resources"
    assert f"nothing is offered: {why}" in items("claim --tags busy")[2]
    assert items("ready --tags busy")[2] == f"fleet: nothing is ready: {why}\n"
    assert items(f"claim {item} --tags a")[0] == Exit.USAGE
    assert items(f"done {item} --fence 1")[0] == Exit.FAILED
    assert items(f"release {item} --agent other")[0] == Exit.FAILED
    assert items(f"release {item}")[0] == Exit.OK


def test_lists_say_what_became_of_items_that_nobody_holds(items: Run) -> None:
    top = added(items, "left in the middle")
    ids = {name: added(items, name, "--parent", top) for name in ("works", "returned", "failed", "pauses")}
    for name, item in ids.items():
        for command in ("claim", "start", {"works": "", "returned": "release"}.get(name, "release --reason failed")):
            assert not command or items(f"{command} {item} --agent {name}")[0] == Exit.OK
    assert items(f"retry {ids['failed']}")[0] == Exit.OK
    until = shown(items, ids["pauses"])["attempts"]["notBefore"]
    said = ["(in-progress)", "(given back)", "(failed, 1 attempt left)", f"(in back-off until {until})"]
    for command in (f"list --parent {top}", f"tree {top}"):
        lines = items(command)[1].splitlines()
        assert [next(line for line in lines if f" {name} " in line).split("  ")[-1] for name in ids] == said
    for item, word in zip(ids.values(), said, strict=True):
        assert f" work {word}," in items(f"show {item}")[1].splitlines()[1]


class Terminal(io.StringIO):
    """Somebody who answers."""

    def isatty(self) -> bool:
        return True


def family(items: Run) -> tuple[str, str, str]:
    """A parent, its open child and the child below that; another child has ended."""
    parent = added(items, "Parent")
    child = added(items, "Child", "--parent", parent)
    below = added(items, "Below", "--parent", child)
    assert items("done", added(items, "Over", "--parent", parent))[0] == Exit.OK
    return parent, child, below


def roles(items: Run, *ids: str) -> list[str]:
    return [shown(items, one)["item"]["role"] for one in ids]


def test_without_a_terminal_open_children_keep_a_parent_from_being_done(items: Run) -> None:
    parent, child, below = family(items)
    other = added(items, "Other")
    code, out, err = items(f"done {other} {parent[:8]}")
    assert (code, out) == (Exit.USAGE, "")
    assert f"{parent[:8]}  Parent: 1 open child\n  {child[:8]}  queue" in err
    assert "(--with-children), or not (--alone)?" in err
    assert "Over" not in err
    assert roles(items, parent, child, below, other) == ["queue"] * 4
    assert items(f"done {parent} --alone --with-children")[0] == Exit.USAGE
    assert items(f"done {parent} --alone")[0] == Exit.OK
    assert roles(items, parent, child, below) == ["terminal", "queue", "queue"]


def test_all_below_a_parent_is_done_with_it(items: Run) -> None:
    parent, child, below = family(items)
    items(f"block {below}")
    code, _, err = items(f"done {parent} --with-children --result merged")
    assert code == Exit.FAILED
    assert f"{parent}: is not completed: 1 item below it could not be" in err
    assert roles(items, parent, child, below) == ["queue", "terminal", "blocked"]
    items(f"resume {below}")
    items(f"reopen {child}")
    code, out, err = items(f"done {parent} --with-children --result merged --json")
    assert code == Exit.OK, err
    answer = json.loads(out)
    assert [one["itemId"] for one in answer["results"]] == [parent]
    assert {one["itemId"] for one in answer["below"] if one["applied"]} == {child, below}
    assert roles(items, parent, child, below) == ["terminal"] * 3
    assert "merged" in items(f"note {parent} result")[1]


@pytest.mark.parametrize(
    ("answer", "code", "expected"),
    [
        ("y\n", Exit.OK, ["terminal"] * 3),
        ("alone\n", Exit.OK, ["terminal", "queue", "queue"]),
        ("\n", Exit.FAILED, ["queue"] * 3),
        ("", Exit.FAILED, ["queue"] * 3),
    ],
)
def test_somebody_at_a_terminal_is_asked_about_open_children(
    items: Run, monkeypatch: pytest.MonkeyPatch, answer: str, code: Exit, expected: list[str]
) -> None:
    family_ids = family(items)
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    ended, _, err = items(f"done {family_ids[0]}")
    assert (ended, "Complete the children, too?" in err) == (code, True)
    assert roles(items, *family_ids) == expected


def test_nothing_is_asked_if_the_children_are_named_too(items: Run) -> None:
    parent, child = added(items, "Parent"), added(items, "Child")
    assert items(f"edit {child} --parent {parent}")[0] == Exit.OK
    items("edit", parent, "--container")
    assert shown(items, parent)["item"]["container"] is True
    assert "container: never offered" in items(f"show {parent}")[1]
    assert items("edit", parent, "--clear", "container")[0] == Exit.OK
    assert "container" not in shown(items, parent)["item"]
    items(f"done {parent} {child[:10]}")
    assert roles(items, parent, child) == ["terminal"] * 2


def test_watch_sees_changes_and_ends(items: Run, fleet: RunningFleet, project: str) -> None:
    parent = added(items, "p")
    child = added(items, "c", "--parent", parent)
    assert items(f"watch {child} --until terminal --timeout 0.05")[0] == Exit.FAILED
    ended: list[int] = []
    command = [f"--data-dir={fleet.data_dir}", "--project", project, "--timeout", "60"]
    watching = [
        threading.Thread(target=lambda line=line: ended.append(fleet_main(["items", "watch", *line, *command])))
        for line in ([child], [parent, "--until", "tree"], [child, "--note", "k"])
    ]
    for one in watching:
        one.start()
    items(f"start {child}")
    items(f"note {child} k v")
    items(f"done {child}")
    for one in watching:
        one.join(60)
    assert ended == [Exit.OK] * 3


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("show zz", Exit.USAGE, "ID must be a UUID or 4 to 32 hex digits of its beginning, not 'zz'"),
        ("start zz", Exit.USAGE, "ID must be"),
        ("dep add 00000000 zz", Exit.USAGE, "BLOCKER must be"),
        ("dep rm 00000000 zz", Exit.USAGE, "BLOCKER must be"),
        ("add x --after zz", Exit.USAGE, "--after must be"),
        ("edit 00000000 --parent zz", Exit.USAGE, "--parent must be"),
        ("claim --ancestor zz", Exit.USAGE, "--ancestor must be"),
        ("show 00000000", Exit.FAILED, "fleet: no item's id begins with '00000000'"),
        ("list --parent 00000000", Exit.FAILED, "fleet: --parent: no item's id begins"),
        ("start --jsn", Exit.USAGE, "unknown option"),
        ("show 00000000-0000-4000-8000-000000000000", Exit.FAILED, "no such item"),
        ("add ''", Exit.FAILED, "fleet: TITLE: is required"),
        ("add x --tags 'A B'", Exit.FAILED, "fleet: --tags: 'A B' must be"),
        ("add x --complexity 11", Exit.FAILED, "fleet: --complexity: must be 1 to 10"),
        ("add x --description @/nowhere", Exit.USAGE, "cannot read"),
        ("edit 00000000 --clear role", Exit.USAGE, "--clear"),
        ("edit 00000000", Exit.USAGE, "nothing to change"),
        ("note 00000000 --delete", Exit.USAGE, "key"),
        ("done 00000000 --result-json {", Exit.USAGE, "not JSON"),
        ("list --limit 0", Exit.USAGE, "--limit"),
        ("ready --limit 21", Exit.USAGE, "--limit"),
        ("list --url ftp://x", Exit.USAGE, "--url"),
        ("list --token-file /nowhere", Exit.USAGE, "--token-file"),
        ("list --data-dir /nowhere", Exit.STORE_UNREACHABLE, "no fleet runs"),
        ("list --project a/b", Exit.USAGE, "project"),
    ],
)
def test_wrong_arguments_are_refused(items: Run, line: str, code: Exit, words: str) -> None:
    found, out, err = items(line)
    assert (found, out) == (code, ""), err
    assert words in err
    assert "Traceback" not in err


def test_hostile_text_is_inert_and_colours_are_for_terminals(items: Run, fleet: RunningFleet, project: str) -> None:
    hostile = "\x1b]0;owned\x07\x1b[31mred\u202etxt\r\n\x9b2J"
    item = added(items, hostile, "--description", hostile, "--summary", hostile)
    items(f"note {item} k", hostile)
    items(f"start {item}", "--summary", hostile)
    for line in (
        "list",
        "tree",
        f"show {item} --history",
        f"note {item}",
        f"note {item} k",
        "search owned",
        "list --json",
    ):
        out = items(line)[1]
        assert not {"\x1b", "\x07", "\x9b", "\u202e", "\r"} & set(out), line
    command = ["fleet", "items", "list", "--data-dir", str(fleet.data_dir), "--project", project]
    for more, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        printed = on_a_terminal(command, {"TERM": "xterm", **more})
        assert (b"\x1b[33m" in printed) == coloured
        assert b"\x1b]" not in printed


def on_a_terminal(command: list[str], environment: dict[str, str]) -> bytes:
    """What a command prints on a terminal."""
    ours, theirs = pty.openpty()
    found = b""
    program = Path(sys.executable).parent / command[0]
    with subprocess.Popen([program, *command[1:]], stdout=theirs, env={"PATH": os.environ["PATH"], **environment}):
        os.close(theirs)
        try:
            while part := os.read(ours, 65_536):
                found += part
        except OSError:  # the end, on Linux
            pass
    os.close(ours)
    return found


def test_shells_complete_commands_flags_and_ids(
    items: Run, fleet: RunningFleet, project: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    item = added(items, "Complete me")
    scripts = {}
    for shell in ("bash", "zsh", "fish"):
        assert fleet_main(["completion", shell]) == Exit.OK
        scripts[shell] = capsys.readouterr().out
        assert "__complete" in scripts[shell], "it does not ask for ids"
        assert "reopen" in scripts[shell]
    typed = ["fleet items sta", "fleet items list --role te", "fleet items start "]
    ask = (
        'complete() { :; }; source "$1"; shift; for line; do read -ra COMP_WORDS <<< "$line"; '
        '[[ $line == *" " ]] && COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _fleet; '
        'echo "${COMPREPLY[*]}"; done'
    )
    (tmp_path / "fleet.bash").write_text(scripts["bash"])
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "FLEET_DATA_DIR": str(fleet.data_dir),
        "FLEET_PROJECT": project,
    }
    done = subprocess.run(
        ["bash", "-c", ask, "bash", str(tmp_path / "fleet.bash"), *typed],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.splitlines() == ["start", "terminal", item[:8]], done.stderr


def test_items_with_times(items: Run) -> None:
    later = added(items, "Later", "--not-before", "+1h", "--due", "2020-01-01T00:00:00Z")
    page = items(f"show {later}")[1]
    assert "not before 20" in page
    assert "due 2020-01-01T00:00:00.000Z (overdue)" in page
    assert items("ready")[1].count(later[:8]) == 0
    assert items(f"edit {later} --clear not-before --clear due")[0] == Exit.OK
    assert items("ready")[1].count(later[:8]) == 1
    report = added(items, "Report", "--cron", "0 9 * * MON-FRI", "--time-zone", "Europe/Berlin", "--missed", "all")
    assert "recurs 0 9 * * MON-FRI Europe/Berlin, next 20" in items(f"show {report}")[1]
    assert items(f"edit {report} --clear cron")[0] == Exit.OK
    for wrong, said in (
        ("add x --cron often", "--cron: "),
        ("add x --cron @daily --time-zone Mars", "--time-zone: "),
        ("add x --due soon", "--due: "),
        ("add x --not-before +1", "--not-before: "),
        ("add x --overlap skip", "--cron"),
    ):
        code, _, err = items(wrong)
        assert code != Exit.OK
        assert said in err, err


def test_an_edit_of_one_part_of_a_recurrence_leaves_the_others(items: Run) -> None:
    item = added(
        items, "Nightly", "--cron", "@daily", "--missed", "all", "--overlap", "allow", "--time-zone", "Asia/Tokyo"
    )

    def recurs() -> Any:
        how = shown(items, item)["item"]["recurs"]
        return how["cron"], how["timeZone"], how["missed"], how["overlap"]

    assert items(f"edit {item} --cron '0 9 * * MON'")[0] == Exit.OK
    assert recurs() == ("0 9 * * MON", "Asia/Tokyo", "all", "allow")
    assert items(f"edit {item[:8]} --missed skip --time-zone UTC")[0] == Exit.OK
    assert recurs() == ("0 9 * * MON", "UTC", "skip", "allow")
    for wrong, said in (
        ("add x --missed one", "--time-zone, --missed and --overlap go with --cron"),
        (
            f"edit {added(items)} --overlap skip",
            "it does not recur: --time-zone, --missed and --overlap go with --cron",
        ),
        (f"edit {item} --clear cron --overlap skip", "--clear cron: a value is given"),
    ):
        code, _, err = items(wrong)
        assert (code, said in err) == (Exit.USAGE, True), err
    assert recurs() == ("0 9 * * MON", "UTC", "skip", "allow")


def test_items_with_resources_and_a_budget(fleet: RunningFleet, items: Run, project: str) -> None:
    item = added(items, "Train", "--resources", "gpu, repo/app=shared", "--budget", "cost=2.50,tokens=200,time=1.5h")
    page = items(f"show {item}")[1]
    assert "demands gpu, repo/app=shared" in page
    assert "budget $2.50, 200 tokens, 1h 30m" in page
    found = shown(items, item)
    assert found["item"]["budget"] == {"costMicroUsd": 2_500_000, "tokens": 200, "wallMs": 5_400_000}
    used = {"inputTokens": 150, "outputTokens": 60, "costMicroUsd": 1_000_000, "wallMs": 61_000}
    assert items(f"claim {item}")[::2] == (Exit.OK, "")
    with SyncFleet(fleet.state.base_url, project=project) as client:
        note = {"itemId": item, "key": "k", "role": "queue", "usage": used}
        client.call("manage_notes", {"operation": "upsert", "notes": [note]})
    page = items(f"show {item}")[1]
    assert "used $1.00, 210 tokens, 1m 1s, budget $2.50, 200 tokens, 1h 30m (spent)" in page
    code, out, err = items(f"claim {item}")
    assert (code, f"{item}  claimed until" in out) == (Exit.OK, True)
    assert f"fleet: {item}: stop: the budget of item {item} is spent: 210 of 200 tokens" in err
    assert items(f"edit {item} --budget tokens=300")[0] == Exit.OK
    assert shown(items, item)["item"]["budget"] == {"tokens": 300}
    assert items(f"edit {item} --clear budget --clear resources --recurs @daily")[0] == Exit.OK
    after = shown(items, item)["item"]
    assert ("budget" in after, "resources" in after, after["recurs"]["cron"]) == (False, False, "@daily")
    for wrong, said in (
        ("add x --budget 5", "--budget: '5' must be cost=DOLLARS, tokens=NUMBER or time=TIME"),
        ("add x --budget tokens=0", "--budget: "),
        ("add x --budget ''", "--budget: "),
        ("add x --resources gpu=many", "--resources: 'gpu=many' must be KEY, KEY=UNITS or KEY=shared"),
        ("add x --resources gpu=5", "--resources: "),
        ("add x --resources a//b", "--resources: "),
        (f"edit {item} --budget time=2h --clear budget", "--clear budget: a value is given"),
    ):
        code, _, err = items(wrong)
        assert code != Exit.OK
        assert said in err, err


def test_show_prints_all_of_an_item_with_many_notes_results_and_dependencies(
    items: Run, fleet: RunningFleet, project: str
) -> None:
    with SyncFleet(fleet.state.base_url, project=project) as client:
        given = [{"title": f"part {n}"} for n in range(230)]
        item = added(items)
        parts = [one["id"] for one in client.call("manage_items", {"operation": "create", "items": given})["items"]]
        for first in range(0, 230, 100):
            some = parts[first : first + 100]
            edges = [{"fromItemId": one, "toItemId": item} for one in some]
            client.call("manage_dependencies", {"operation": "create", "dependencies": edges})
            moved = [{"itemId": one, "trigger": "complete", "result": f"r{one[:8]}"} for one in some[:60]]
            client.call("advance_item", {"transitions": moved})
        notes = [{"itemId": item, "key": f"k{n:03}", "role": "work", "body": "x" * 700} for n in range(130)]
        client.call("manage_notes", {"operation": "upsert", "notes": notes})
    whole = json.loads(items(f"show {item} --json")[1])
    assert {edge["fromItemId"] for edge in whole["dependencies"]} == set(parts)
    assert [note["key"] for note in whole["notes"]] == [f"k{n:03}" for n in range(130)]
    assert len({one["itemId"] for one in whole["results"]}) == 150
    assert not {"notesLeft", "notesTotal", "resultsLeft", "resultsTotal", "nextOffset"} & whole.keys()
    page = items(f"show {item}")[1]
    assert (page.count("waits for "), page.count("result of "), page.count("note k")) == (230, 150, 130)
    assert "there may be more" in items("ready --limit 5")[2]
    assert "there may be more" not in items("ready --limit 20 --tags nobody-has-this")[2]
