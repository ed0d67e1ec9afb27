"""Each format: what becomes of a file of it, and of files that are cut off, wrong or hostile."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.interchange.files import encoding_of
from coordinator.interchange.formats import backlog, beads, github, jira, linear, markdown, taskmaster
from coordinator.interchange.formats.lines import MOST_BYTES
from coordinator.interchange.formats.tables import unguarded
from coordinator.interchange.mapping import Mapping_, apply_mapping, read_mapping, tag
from coordinator.interchange.model import ImportProblem, ImportSource, SourceRecord
from coordinator.interchange.shaping import shape
from coordinator.interchange.yamltext import safe_yaml


def ready(source: ImportSource, module: Any, **own: Any) -> dict[str, SourceRecord]:
    apply_mapping(source, module.STATES, Mapping_(**own), None)
    shape(source)
    return {one.id: one for one in source.records}


BEADS = b"""\
{"_type":"memory","key":"x"}
{"_type":"issue","id":"app-1","title":"Epic","status":"open","priority":0,"issue_type":"epic"}
{"id":"app-1.1","title":"Cache rates","status":"in_progress","priority":4,"labels":["API team","api"],"design":"LRU",
"acceptance_criteria":"fast","dependencies":[{"issue_id":"app-1.1","depends_on_id":"app-1","type":"parent-child"},
{"depends_on_id":"app-2","type":"blocks"},{"depends_on_id":"app-3","type":"waits-for"}],
"comments":[{"author":"ann","created_at":"2025-01-01","text":"hi"}],"estimated_minutes":30}
{"id":"app-2","title":"Done","status":"closed","assignee":"bob","odd":[1],"none":""}
{"id":"app-3","title":"Later","status":"deferred"}
{"id":"app-4","title":"Gone","status":"tombstone"}
{"id":"app-5","title":"Wisp","status":"open","ephemeral":true}
{"id":"app-6","title":"Mail","status":"open","issue_type":"message"}
""".replace(b",\n", b",")


def test_beads() -> None:
    source = beads.read(BEADS)
    found = ready(source, beads)
    assert list(found) == ["app-1", "app-2", "app-3", "app-1.1"], "parents come first"
    cache = found["app-1.1"]
    assert (cache.parent, cache.blockers, cache.related) == ("app-1", ["app-2"], ["app-3"])
    assert (cache.state, cache.priority, cache.tags) == ("in-progress", "low", ["api-team", "api"])
    assert cache.description == "## Design\n\nLRU\n\n## Acceptance criteria\n\nfast"
    assert cache.notes == {"comments": "ann 2025-01-01:\nhi"}
    assert cache.extra == {"estimated_minutes": 30}
    assert (cache.fields, found["app-2"].fields) == ({}, {"assignee": "bob"})
    assert (found["app-1"].priority, found["app-2"].state, found["app-3"].state) == ("high", "done", "blocked")
    assert source.losses() == [
        "1 x lines of type memory: x",
        "1 x tombstones: Gone",
        "1 x ephemeral issues: Wisp",
        "1 x issues of type message: Mail",
        "1 x dependencies of type waits-for: RELATES_TO, they hold nothing back",
        "1 x authors and times of comments: kept as one note",
        "1 x odd",
    ]


def test_of_lines_with_one_id_the_newest_counts() -> None:
    """As ``merge=union`` leaves them: the last one may be older, and revive closed work."""
    new = {"id": "ab-1", "title": "Finished", "status": "closed", "updated_at": "2026-01-05T12:00:00Z"}
    old = {**new, "status": "open", "updated_at": "2026-01-05T13:30:00+02:00"}
    other = {"id": "ab-2", "title": "Other"}
    for lines in ([new, other, old], [old, new, other], [old, new, old, new]):
        source = beads.read("\n".join(map(json.dumps, lines)).encode())
        assert ready(source, beads)["ab-1"].state == "done"
        assert "ab-1" in source.remarks[0]
    assert len(ready(beads.read("\n".join(map(json.dumps, [old, old])).encode()), beads)) == 1
    for time in ("", "yesterday", new["updated_at"]):
        unclear = [new, {**old, "updated_at": time}, other, {**other, "status": "closed"}]
        with pytest.raises(ImportProblem, match=r"ab-1 \('Finished', 'Finished'\), ab-2 \('Other', 'Other'\)"):
            ready(beads.read("\n".join(map(json.dumps, unclear)).encode()), beads)


def test_other_formats_revive_nothing_either() -> None:
    list_ = b"- [x] Done <!-- fleet:a -->\n- [ ] Done <!-- fleet:a -->\n"
    tasks = b'{"tasks": [{"id": 1, "title": "a", "status": "done"}, {"id": "1", "title": "a"}]}'
    for module, data in ((markdown, list_), (taskmaster, tasks), (jira, f"{JIRA}P-1,101,Epic,Epic,To Do\n".encode())):
        with pytest.raises(ImportProblem, match="it is not known which is the newest"):
            ready(module.read(data), module)
    issue = {"number": 1, "title": "x", "url": "u", "state": "CLOSED", "updatedAt": "2026-01-02T00:00:00Z"}
    pages = [issue, {**issue, "state": "OPEN", "updatedAt": "2026-01-01T00:00:00Z"}]
    assert ready(github.read(json.dumps(pages).encode()), github)["u"].state == "done"
    closed = b'{"id": "a", "title": "x", "status": "shipped", "closed_at": "2026-01-01T00:00:00Z"}'
    assert ready(beads.read(closed), beads)["a"].state == "done"


def test_a_merge_conflict_is_named() -> None:
    with pytest.raises(ImportProblem, match="line 2 begins a merge conflict"):
        markdown.read(b"# Plan\n<<<<<<< HEAD\n- [x] a\n=======\n- [ ] a\n>>>>>>> theirs\n")
    with pytest.raises(ImportProblem, match="3 rows have no Issue key: lines 2, 4, 6"):
        jira.read(b"Summary,Issue key,Status\n<<<<<<< HEAD\na,A-1,Done\n=======\na,A-1,To Do\n>>>>>>> theirs\n")
    with pytest.raises(ImportProblem, match="line 1 begins a merge conflict"):
        beads.read(b'<<<<<<< HEAD\n{"id":"a","title":"x"}\n=======\n{"id":"a","title":"y"}\n>>>>>>> theirs\n')


def test_github() -> None:
    issue = {"title": "x", "body": "b", "labels": [{"name": "P1"}, {"name": "net work"}], "milestone": {"title": "1.4"}}
    url = "https://github.com/o/r/issues/"
    blocks = {"nodes": [{"url": f"{url}1"}], "totalCount": 3}
    issues = [
        {**issue, "number": 1, "url": f"{url}1", "state": "OPEN", "subIssues": {"nodes": [{"url": f"{url}3"}]}},
        {**issue, "number": 2, "url": f"{url}2", "state": "CLOSED", "stateReason": "NOT_PLANNED", "blocking": blocks},
        {**issue, "number": 3, "url": f"{url}3", "state": "CLOSED", "stateReason": "COMPLETED", "parent": None},
    ]
    source = github.read(json.dumps(issues).encode())
    found = ready(source, github)
    one, two, three = (found[f"{url}{n}"] for n in (1, 2, 3))
    assert (one.priority, one.tags) == ("high", ["p1", "net-work", "milestone:1.4"])
    assert (one.state, two.state, three.state) == ("queue", "cancelled", "done")
    assert (one.blockers, three.parent) == ([two.id], one.id)
    assert source.remarks == ["issue 2: only 1 of 3 blocking came"]
    many = [{**issue, "number": n, "url": f"{url}{n}", "state": "OPEN"} for n in range(30)]
    assert "--limit" in github.read(json.dumps(many).encode()).remarks[0]
    with pytest.raises(ImportProblem, match="issue 7 has no url"):
        github.read(b'[{"number": 7, "title": "x"}]')


ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_texts_are_read_in_the_encodings_that_programs_write(encoding: str, tmp_path: Path) -> None:
    issues = '[{"number":1,"title":"Gr\u00fc\u00dfe","url":"https://github.com/o/r/issues/1","state":"OPEN"}]'
    lines = '{"id":"a","title":"Gr\u00fc\u00dfe"}\n'
    table = "Issue key,Summary,Status\nA-1,Gr\u00fc\u00dfe,Open\n"
    list_ = "- [ ] Gr\u00fc\u00dfe\n"
    for module, text in ((github, issues), (beads, lines), (jira, table), (markdown, list_)):
        assert [one.title for one in module.read(text.encode(encoding)).records] == ["Gr\u00fc\u00dfe"], module
    if "32" not in encoding:
        assert encoding_of(markdown.with_ids(list_.encode(encoding))) == encoding
    file = tmp_path / "map.yaml"
    file.write_bytes('status: {"Gr\u00fc\u00dfe": done}\n'.encode(encoding))
    assert read_mapping(file).status == {"Gr\u00fc\u00dfe": "done"}
    for module in (github, beads, jira, markdown):
        with pytest.raises(ImportProblem, match="not text in UTF-8: byte 4; save it in UTF-8"):
            module.read("1234\u00fc".encode("cp1252"))


REST = """[{"url": "https://api.github.com/repos/o/r/issues/1",
  "html_url": "https://github.com/o/r/issues/1", "number": 1,
  "title": "Not done", "body": null, "state": "closed", "state_reason": "not_planned", "labels": [{"name": "bug"}],
  "type": {"name": "Bug"}, "parent_issue_url": "https://api.github.com/repos/o/r/issues/3", "user": {"login": "ann"},
  "reactions": {"total_count": 0}, "issue_dependencies_summary": {"total_blocked_by": 1, "total_blocking": 0}},
 {"url": "https://api.github.com/repos/o/r/issues/2", "html_url": "https://github.com/o/r/pull/2", "number": 2,
  "title": "A pull request", "state": "open", "pull_request": {}},
 {"url": "https://api.github.com/repos/o/r/issues/3", "html_url": "https://github.com/o/r/issues/3", "number": 3,
  "title": "Above", "state": "open"}]"""


def test_github_as_its_rest_interface_lists_it() -> None:
    pages = [json.loads(REST), [{**json.loads(REST)[2], "number": 4, "html_url": "https://github.com/o/r/issues/4"}]]
    flat = [*pages[0], *pages[1]]
    forms = [json.dumps(pages), json.dumps(pages[0]) + json.dumps(pages[1]), "\n".join(map(json.dumps, flat))]
    forms.append(json.dumps({"total_count": 4, "items": flat}))
    for form in forms:
        source = github.read(form.encode())
        found = ready(source, github)
        assert list(found) == [f"https://github.com/o/r/issues/{n}" for n in (3, 4, 1)]
        one = found["https://github.com/o/r/issues/1"]
        assert (one.state, one.type, one.parent) == ("cancelled", "Bug", "https://github.com/o/r/issues/3")
        assert source.losses() == [
            "1 x pull requests: A pull request",
            "1 x dependencies, which this form only counts: take `gh issue list --json ...,blockedBy`",
            "1 x user",
        ]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ('[{"number": 7, "title": "x", "url": "u"}]', "issue 7 has no state"),  # a closed one would be revived
        ('{"message": "Bad credentials", "status": "401"}', "not a list of issues"),
        ('[{"number": 1', "cut off"),
        ("Here are the issues", "not JSON: JSON is malformed: invalid character (byte 0)"),
    ],
)
def test_what_is_no_list_of_issues_is_refused_for_its_reason(data: str, why: str) -> None:
    with pytest.raises(ImportProblem) as refused:
        github.read(data.encode())
    assert why in str(refused.value)
    assert ("cut off" in str(refused.value)) == ("cut off" in why)


def test_task_master() -> None:
    tasks = [
        {"id": 1, "title": "one", "status": "done", "description": "sum", "details": "how", "testStrategy": "test"},
        {
            "id": "2",
            "title": "two",
            "status": "pending",
            "dependencies": [1],
            "complexity": 12.5,
            "subtasks": [
                {"id": 1, "title": "a", "status": "deferred"},
                {"id": 2, "title": "b", "dependencies": [1, "2.1", "1", 101], "status": "review"},
            ],
        },
    ]
    source = taskmaster.read(json.dumps({"master": {"tasks": tasks}, "empty": {"tasks": []}}).encode())
    found = ready(source, taskmaster)
    assert found["master/2"].blockers == ["master/1"]
    assert found["master/2.2"].blockers == ["master/2.1"], "a text without a dot names a sibling, as a number does"
    assert found["master/2.2"].parent == "master/2"
    assert found["master/2"].parent == "master"
    assert (found["master/1"].summary, found["master/1"].description) == ("sum", "how\n\n## Test strategy\n\ntest")
    assert (found["master/2"].complexity, found["master/2"].extra["complexity"]) == (10, 12.5)
    assert [found[f"master/2.{n}"].state for n in (1, 2)] == ["blocked", "in-progress"]
    assert [one.id for one in found.values() if one.container] == ["master", "empty"]
    assert (found["master"].state, found["empty"].state) == ("queue", "done")
    mixed = {"tasks": tasks[:1], "meta": {"a": 1}, "v2": {"tasks": tasks[:1], "metadata": {"created": "now"}}}
    both = taskmaster.read(json.dumps(mixed).encode())
    assert [one.id for one in both.records] == ["v2", "v2/1", "master", "master/1"]
    assert both.losses() == ["1 x meta", "1 x metadata of context v2"]
    with pytest.raises(ImportProblem, match="at the top and in the context master"):
        taskmaster.read(json.dumps({**mixed, "master": mixed["v2"]}).encode())
    odd = {"id": 3, "title": "odd", "status": "pending", "complexity": "high", "dependencies": "1, 2", "subtasks": {}}
    assert taskmaster.read(json.dumps({"tasks": [odd]}).encode()).losses() == [
        "1 x complexities that are no numbers: 'high' of odd",
        "1 x dependencies that are no lists: '1, 2' of odd",
    ]
    old = taskmaster.read(json.dumps({"tasks": tasks[:1]}).encode())
    assert [(one.id, one.state) for one in old.records] == [("master", "done"), ("master/1", None)]


def test_task_master_at_any_depth() -> None:
    deep: dict[str, Any] = {"id": 1, "title": "deep", "status": "pending", "dependencies": ["2", 900, "900"]}
    sub = {"id": 2, "title": "sub", "dependencies": ["1", "1.1"], "assignee": "ann"}
    sub["subtasks"] = [deep, {"id": "7.2.2", "title": "beside", "dependencies": ["7.1", "1"]}]
    tasks = [
        {"id": 1, "title": "first", "subtasks": [{"id": 1, "title": "a"}]},
        {"id": 7, "title": "seventh", "dependencies": ["1"], "subtasks": [{"id": 1, "title": "one"}, sub]},
        {"id": 900, "title": "many"},
    ]
    source = taskmaster.read(json.dumps({"master": {"tasks": tasks}}).encode())
    found = {key.removeprefix("master/"): one for key, one in ready(source, taskmaster).items()}
    blockers = {key: [one.removeprefix("master/") for one in found[key].blockers] for key in found}
    assert (blockers["7"], blockers["7.2"]) == (["1"], ["7.1", "1.1"])
    assert (blockers["7.2.1"], blockers["7.2.2"]) == (["7.2.2", "900"], ["7.1"]), "one of a cycle is left out"
    assert (found["7.2.1"].parent, found["7.2.2"].title) == ("master/7.2", "beside")
    assert found["7.2"].fields == {"assignee": "ann"}
    assert source.losses() == []
    for _ in range(200):
        below: dict[str, Any] = {"id": 1, "title": "deeper"}
        deep["subtasks"] = [below]
        deep = below
    assert len(taskmaster.read(json.dumps({"tasks": tasks}).encode()).records) == 209


TASK = """\
---
id: BACK-7
title: 'Login: "form"'
status: {status}
labels: [ui]
dependencies: [task-3]
priority: medium
---
## Description

<!-- SECTION:DESCRIPTION:BEGIN -->
Text
<!-- SECTION:DESCRIPTION:END -->

## Acceptance Criteria
<!-- AC:BEGIN -->
- [ ] #1 works
<!-- AC:END -->

## Implementation Plan

Plan
"""


def test_backlog(tmp_path: Path) -> None:
    tasks = tmp_path / "backlog" / "tasks"
    tasks.mkdir(parents=True)
    (tmp_path / "backlog" / "config.yml").write_text("statuses: [To Do, Doing, Shipped]\ntask_prefix: BACK\n")
    (tasks / "back-7 - Login.md").write_text(TASK.format(status="Shipped") + "\n## Implementation plan\n\nMore\n")
    (tasks / "back-7.2 - Sub.md").write_text("---\nid: back-7.2\ntitle: Sub\nstatus: To Do\n---\n")
    completed = tasks.parent / "completed"
    completed.mkdir()
    (completed / "back-3 - Old.md").write_text("---\r\nid: task-3\r\ntitle: Old\r\nstatus: To Do\r\n---\r\n")
    found = ready(backlog.read_folder(tmp_path), backlog)
    login = found["BACK-7"]
    assert login.description == "Text\n\n## Acceptance Criteria\n\n- [ ] #1 works"
    assert (login.notes, login.state, login.blockers) == ({"plan": "Plan\n\nMore"}, "done", ["TASK-3"])
    assert found["TASK-3"].state == "done"
    assert found["BACK-7.2"].parent == "BACK-7"


def test_files_of_backlog_are_those_that_the_tool_reads(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    (tasks / "old").mkdir(parents=True)
    people = ("@alex", "[@alex, 'B: c', @dd]", "\n  - @alex\n  - '@b'", "A: b", '"@alex"', "", "[]", "*star")
    for n, name in enumerate(people):
        front = f"---\nid: task-{n}\ntitle: '@x'\nassignee: {name}\nreporter: @ann\nodd: 1\n---\n"
        (tasks / f"Task-{n} - Do.md").write_text(front, "utf-8-sig" if n else "utf-8")
    for name in ("readme.md", "back-1 - Other.md", "old/task-9 - Below.md", "notes.txt"):
        (tasks / name).write_text("# Tasks\n")
    drafts = tmp_path / "drafts"
    drafts.mkdir()
    (drafts / "draft-1 - Idea.md").write_text("")
    source = backlog.read_folder(tmp_path)
    assert sorted(ready(source, backlog)) == [f"TASK-{n}" for n in range(len(people))]
    assert source.losses() == [
        "3 x files that Backlog.md does not take for tasks (task_prefix task): "
        "tasks/back-1 - Other.md, tasks/old/task-9 - Below.md, tasks/readme.md",
        "1 x files in the folder drafts: draft-1 - Idea",
        f"{len(people)} x reporter",
        f"{len(people)} x odd",
        "2 x assignees besides the first",
    ]
    named = [source.records[n].fields.get("assignee") for n in range(len(people))]
    assert named == ["alex", "alex", "alex", "A: b", "alex", None, None, "*star"]


def test_all_files_of_backlog_that_cannot_be_read_are_named_at_once(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    bad = {
        "task-1.md": b"# No front matter\n",
        "task-2.md": b"---\nid: task-2\ntitle: Fix: this\n---\n",
        "task-3.md": b"---\nid: !!python/object/apply:os.system [echo]\n---\n",
        "task-4.md": b"---\nid: task-4\ntitle: \xfc\n---\n",
        "task-5.md": b"---\ntitle: x\n---\n",
    }
    for name, data in bad.items():
        (tasks / name).write_bytes(data)
    (tasks / "task-6.md").write_text("---\nid: task-6\ntitle: x\n---\n")
    (tasks / "task-7.md").symlink_to("nowhere")
    with pytest.raises(ImportProblem) as refused:
        backlog.read_folder(tmp_path)
    assert all(f"tasks/{name}: " in str(refused.value) for name in [*bad, "task-7.md"])
    source = backlog.read_folder(tmp_path, skip_unreadable=True)
    assert list(ready(source, backlog)) == ["TASK-6"]
    assert len(source.left_out["files that cannot be read"]) == 6


MARKDOWN = """\
# Release

- [ ] Upload retries #net !high
  More about it.

      indented
  - [x] Child <!-- fleet:abc123 -->
```
- [ ] not a task
# not a heading
```
- [!] Waits (after abc123)
## Empty
# Later
- [~] Dropped \\#1
"""


def test_markdown() -> None:
    found = ready(markdown.read(MARKDOWN.encode()), markdown)
    by_title = {one.title: one for one in found.values()}
    assert list(by_title) == ["Release", "Later", "Upload retries", "Waits", "Dropped #1", "Child"]
    upload = by_title["Upload retries"]
    assert (upload.tags, upload.priority) == (["net"], "high")
    assert upload.description == "More about it.\n\n    indented"
    assert by_title["Child"].id == "abc123"
    assert by_title["Child"].parent == upload.id
    assert by_title["Waits"].blockers == ["abc123"]
    assert [by_title[name].state for name in ("Waits", "Dropped #1", "Later")] == ["blocked", "cancelled", "done"]
    renamed = markdown.read(MARKDOWN.replace("Upload", "Download").encode())
    assert upload.id not in {one.id for one in renamed.records}


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("```markdown\n```bash\nls\n```\n- [ ] a\n", ["a"]),  # a closing fence has no info string
        ("```\n```bash\n- [ ] code\n```\n- [ ] a\n", ["a"]),
        ("````\n```\n- [ ] code\n````  \n- [ ] a\n", ["a"]),
        ("~~~\n```\n- [ ] code\n~~~\n- [ ] a\n", ["a"]),
        ("```js``` in a line\n- [ ] a\n", ["a"]),
        ("- [ ] a\n  ```\n  - [ ] code\n\n- [ ] b\n", ["a", "b"]),  # a fence ends with the entry that it is in
        ("- [ ] a\n```\n- [ ] code\n```\n", ["a"]),
        ("1. [ ] a\n2) [x] b\n   - [ ] c\n-   [ ] d\n+ [ ]\te\n", ["a", "b", "c", "d", "e"]),
        ("- [ ] a\n\n## Notes\n- [P] tasks = other files\n- [1] a reference\n- [ ](b)\n- [](c)\n", ["a"]),
    ],
)
def test_tasks_of_markdown_are_those_that_commonmark_shows(text: str, titles: list[str]) -> None:
    source = markdown.read(text.encode())
    found = ready(source, markdown)
    assert sorted(one.title for one in found.values() if not one.container) == titles
    legend = ["entries with another mark than one of a task"] if "[P]" in text else []
    assert list(source.left_out) == legend
    assert markdown.with_ids(text.encode()).count(b"<!-- fleet:") == len(titles)


def test_text_of_markdown_that_belongs_to_no_task_is_told() -> None:
    source = markdown.read(b"Intro\n\n# Plan\nWhy.\n\n- [ ] a\n  Text\n\nMore\n## Notes\n```\ncode\n```\n")
    assert source.records[1].description == "Text\n\nMore"
    assert source.records[0].description == "Why.\n\n## Notes\n```\ncode\n```"
    assert source.losses() == ["1 x lines of text below no task"]
    source = markdown.read(b"- [ ] a\n  - [ ] \n    - [ ] b\n- [x]\n")
    assert (len(source.records), source.losses()) == (2, ["2 x tasks without a text: line 2, line 4"])


def test_ids_that_are_written_keep_tasks_what_they_are() -> None:
    written = markdown.with_ids(MARKDOWN.encode())
    assert [one.id for one in markdown.read(written).records] == [
        one.id for one in markdown.read(MARKDOWN.encode()).records
    ]
    assert markdown.with_ids(written) == written
    renamed = markdown.read(written.replace(b"Upload", b"Download"))
    assert {one.title: one.id for one in renamed.records}["Download retries"] in written.decode()


LINEAR = """\
ID,Team,Title,Description,Status,Estimate,Priority,Labels,Completed,Canceled,Parent issue,UUID,Related to,Blocked by
ENG-1,ENG,'=1+1,"a,
b",Whatever,3,Urgent,"x, Y z",2025-03-04T09:12:33.000Z,,,u-1,,
ENG-2,ENG,Two,,Canceled,,No priority,,,Tue Mar 04 2025 09:12:33 GMT+0000 (GMT),ENG-1,u-2,ENG-1,"ENG-1, ENG-3"
ENG-3,ENG,Three,,Todo,,High,,,,,,,
"""


def test_linear() -> None:
    found = ready(linear.read(b"\xef\xbb\xbf" + LINEAR.encode()), linear)
    one, two, three = found["u-1"], found["u-2"], found["ENG-3"]
    assert (one.title, one.description, one.state, one.priority) == ("=1+1", "a,\nb", "done", "high")
    assert (one.tags, one.complexity) == (["x", "y-z"], 3)
    assert (two.state, two.priority, two.parent) == ("cancelled", "medium", "u-1")
    assert (two.blockers, two.related) == (["u-1", "ENG-3"], ["u-1"])
    assert three.state == "queue"


JIRA = """\
Issue key,Issue id,Issue Type,Summary,Status,Priority,Parent,Labels,Labels,Inward issue link (Blocks),\
Outward issue link (Blocks),Resolution,Comment
P-1,101,Epic,Epic,In Progress,Highest,,a,b,,,,
P-2,102,Story,Story,To Do,Low,101,,,P-1,P-3,,one
P-3,103,Bug,Bug,Resolved,Major,P-1,,,,,Won't Do,
"""


def test_jira() -> None:
    found = ready(jira.read(JIRA.encode()), jira)
    one, two, three = (found[f"P-{n}"] for n in (1, 2, 3))
    assert one.tags == ["a", "b"]
    assert two.parent == three.parent == "P-1"
    assert (two.blockers, three.blockers) == (["P-1"], ["P-2"])
    assert (one.state, three.state, three.priority) == ("in-progress", "cancelled", "medium")
    assert two.notes == {"comments": "one"}


LINKS = """\
Summary,Issue key,Status,Outward issue link (Blocker),Inward issue link (Depends),Inward issue link (Problem/Incident),\
Outward issue link (Relates),Custom field (Story Points),Assignee,Outward issue link (Depends)
a,A-1,To Do,A-2,A-3,A-4,A-5,3,ann,
b,A-2,To Do,,,,,,,
c,A-3,To Do,,,,,,,
d,A-4,To Do,,,,,,,A-5
e,A-5,To Do,,,,,,,
"""


def test_links_of_jira_hold_back_or_are_named() -> None:
    source = jira.read(LINKS.encode())
    found = ready(source, jira)
    assert {key: one.blockers for key, one in found.items() if one.blockers} == {
        "A-2": ["A-1"],
        "A-3": ["A-1"],
        "A-4": ["A-5"],
    }
    assert found["A-1"].related == ["A-4", "A-5"]
    assert source.losses() == [
        "1 x Inward issue link (Problem/Incident): RELATES_TO, it holds nothing back",
        "1 x Custom field (Story Points)",
    ]
    assert found["A-1"].fields == {"assignee": "ann"}


def test_rows_with_more_cells_than_columns_are_named_and_refused() -> None:
    text = (
        "Summary,Issue key,Issue id,Issue Type,Status,Labels,Description,Environment,Outward issue link (Blocks)\n"
        "Good row,AB-1,1,Task,To Do,one,the description,linux,\n"
        "Wide row,AB-2,2,Task,To Do,label1, label2,the real description,linux,\n"
        '"Wide\nrow",AB-3,3,Task,To Do,,,,,more\n'
    )
    with pytest.raises(ImportProblem, match=r"2 rows have more cells .*: AB-2 \(line 3\), AB-3 \(line 5\)"):
        jira.read(text.encode())
    with pytest.raises(ImportProblem, match=r"1 rows .*: E-1 \(line 2\)"):
        linear.read(b"ID,Title,Status\nE-1,a,b,Todo\n")


@pytest.mark.parametrize(
    ("resolution", "category", "state"),
    [("Fixed", "", "done"), ("Won't Do", "Done", "cancelled"), ("", "Done", "done"), ("Unresolved", "To Do", "queue")],
)
def test_what_jira_has_closed_is_not_revived(resolution: str, category: str, state: str) -> None:
    row = f"Summary,Issue key,Status,Resolution,Status Category\na,A-1,Shipped,{resolution},{category}\n".encode()
    source = jira.read(row)
    apply_mapping(source, jira.STATES, Mapping_(), "queue")
    assert source.records[0].state == state
    assert ready(jira.read(row), jira, status={"shipped": "blocked"})["A-1"].state == (
        "cancelled" if state == "cancelled" else "blocked"
    )


def test_unknown_statuses_stop_the_import_unless_they_are_mapped(tmp_path: Path) -> None:
    lines = b'{"id":"a","title":"x","status":"In QA"}\n{"id":"b","title":"y","status":"Parked"}\n'
    with pytest.raises(ImportProblem, match=r"'In QA' \(1\), 'Parked' \(1\)"):
        ready(beads.read(lines), beads)
    file = tmp_path / "map.yaml"
    file.write_text("status: {in qa: in-progress, Parked: skip}\npriority: {'': high}\n")
    source = beads.read(lines)
    apply_mapping(source, beads.STATES, read_mapping(file), None)
    assert [(one.id, one.state, one.priority) for one in source.records] == [("a", "in-progress", "high")]
    source = beads.read(lines)
    apply_mapping(source, beads.STATES, Mapping_(), "queue")
    assert {one.state for one in source.records} == {"queue"}
    for text in (
        "status: {a: nowhere}",
        "priority: {a: p1}",
        "stati: {}",
        "status: [",
        "- 1",
        "status: {a: !!python/x 1}",
    ):
        file.write_text(text)
        with pytest.raises(ImportProblem):
            read_mapping(file)


@pytest.mark.parametrize(
    ("module", "data"),
    [
        (beads, BEADS),
        (github, b'[{"number": 1, "title": "x", "url": "u", "state": "OPEN"}]'),
        (taskmaster, b'{"master": {"tasks": [{"id": 1, "title": "x"}]}}'),
        (linear, LINEAR.encode()),
        (jira, JIRA.encode()),
        (markdown, MARKDOWN.encode()),
    ],
    ids=lambda value: value.__name__.rpartition(".")[2] if not isinstance(value, bytes) else "",
)
def test_files_that_are_cut_off_or_something_else_are_refused(module: Any, data: bytes) -> None:
    for end in range(0, len(data), 3):
        with contextlib.suppress(ImportProblem):
            ready(module.read(data[:end]), module)
    others = [
        b"\xff\xfe\x00",
        b"null",
        b"[1]",
        b'{"a": 1}',
        b"[" * 100_000,
        b'{"id":' * 100_000,
        b"a,b\n" * 3,
        b'"' * 9,
    ]
    for other in others:
        try:
            found = ready(module.read(other), module)
        except ImportProblem:
            continue
        assert module is markdown or not found


def test_long_lines_and_yaml_bombs_are_refused() -> None:
    with pytest.raises(ImportProblem, match="line 1 has more than"):
        beads.read(b'{"id":"' + b"x" * MOST_BYTES + b'"}\n')
    bomb = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    for text in (bomb, "- " * 1_000, "a: !!python/object/apply:os.system ['true']", "a: b: c", "x" * 2_000_000):
        with pytest.raises(ValueError, match=r"\S"):
            safe_yaml(text)


def test_labels_become_tags() -> None:
    assert [tag(one) for one in ("Good First Issue", "área/UI", "P1", "--x--", "###", "a" * 200)] == [
        "good-first-issue",
        "rea/ui",
        "p1",
        "x",
        "",
        "a" * 100,
    ]


def test_guards_against_formulas_are_taken_off() -> None:
    for cell in ("=cmd()", "+1", "-1", "@x", "\tx"):
        assert unguarded(f"'{cell}") == cell
    for cell in ("'quoted'", "'", "", "plain"):
        assert unguarded(cell) == cell
