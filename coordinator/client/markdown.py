"""Plans as Markdown task lists.

    # Release 2
    - [ ] Build #ci !high (ref: build)
    - [ ] Write notes #docs (after: build)
      What has changed since 1.9, for users.
      - [ ] Collect the changes
      - [ ] Write them up (after: Collect the changes)
    - [ ] Publish (not before: 2026-12-01T09:00:00Z) (due: +4w) (resources: site) (budget: cost=2.50, time=2h)
    - [x] Choose a date

The first heading is the title. Indented tasks are children, other indented text is the description. Tasks of a numbered
list are done one after the other. What stands in a fence is text.
"""

from __future__ import annotations

import re
from typing import Any

from coordinator.client.plan_fields import MARKS

_BOX = r"(?:\[(?P<box>[ xX])\](?:\s+|\Z))"
_TASK = re.compile(rf"(?P<indent>\s*)(?:[-*+]|(?P<number>\d+)[.)])\s+(?=\S){_BOX}?(?P<text>.*)")
_HEADING = re.compile(r"#{1,6}\s+(?P<title>.*\S)")
MARK = (
    rf"\((?P<name>after|ref|{'|'.join(MARKS)}):"
    r"\s*(?P<value>(?:[^()\s]|\([^()]*\))(?:[^()]|\([^()]*\))*)\)"
)
"""A mark of a task, such as ``(after: build)``; what it says may have parentheses, but none within them."""
_SUFFIX = re.compile(rf"#(?P<tag>[a-z0-9][\w.:/-]*)|!(?P<priority>high|medium|low)|{MARK}")
_SINGLE = {"ref": "ref", **MARKS}
_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*\Z)|~{3,})")


def markdown(text: str, title: str, places: list[int] | None = None) -> dict[str, Any]:
    """The mapping that a Markdown task list stands for.

    Args:
        title: of the plan, if the text has no heading.
        places: gets the line of each task, from 1, in the order of the text.
    """
    root: dict[str, Any] = {"title": "", "children": []}
    texts: list[tuple[dict[str, Any], list[str]]] = [(root, [])]
    """Of all items: the lines of their descriptions."""
    steps: set[int] = set()
    """Places in ``texts`` of items of numbered lists."""
    open_items: list[tuple[int, int]] = [(-1, 0)]
    """Indents, and places in ``texts``."""
    fence = ""
    for number, line in enumerate(text.expandtabs(4).splitlines(), 1):
        marked = _FENCE.match(line)
        fenced = fence or marked
        if marked is not None:
            fence = "" if fence and marked[1].startswith(fence) else fence or marked[1]
        task = None if fenced else _TASK.fullmatch(line)
        if task is not None:
            depth = len(task["indent"])
            last = -1
            while open_items[-1][0] >= depth:
                last = open_items.pop()[1]
            above = texts[open_items[-1][1]][0]
            item = _task(task["text"], (task["box"] or " ") in "xX")
            above.setdefault("children", []).append(item)
            if places is not None:
                places.append(number)
            if task["number"] is not None:
                if last in steps:
                    before = texts[last][0]
                    before.setdefault("ref", f"step {len(steps)}")
                    item.setdefault("after", []).append(before["ref"])
                steps.add(len(texts))
            open_items.append((depth, len(texts)))
            texts.append((item, []))
        elif (heading := _HEADING.fullmatch(line.strip())) and not fenced and not line.startswith(" "):
            if not root["title"]:
                root["title"] = heading["title"]
        elif line.strip() or len(open_items) > 1:
            indent = len(line) - len(line.lstrip()) if line.strip() else open_items[-1][0] + 1
            depth, owner = next(one for one in reversed(open_items) if one[0] < indent)
            if line.strip() or texts[owner][1]:
                texts[owner][1].append(line[min(indent, depth + 2) :].rstrip())
    root["title"] = root["title"] or title
    for item, lines in texts:
        if lines:
            item["description"] = "\n".join(lines).rstrip()
    return root


def _task(text: str, done: bool) -> dict[str, Any]:
    item: dict[str, Any] = {"done": done} if done else {}
    tags: list[str] = []
    while text := text.rstrip():
        begin = _opening(text) if text.endswith(")") else len(text) - len(text.rsplit(maxsplit=1)[-1])
        # The last word only: a search would take the square of a long line's time.
        found = _SUFFIX.fullmatch(text, begin) if begin > 0 and text[begin - 1].isspace() else None
        if found is None:
            break
        text = text[:begin]
        if found["tag"]:
            tags.insert(0, found["tag"])
        elif found["priority"]:
            item["priority"] = found["priority"]
        else:
            set_mark(item, found)
    if tags:
        item["tags"] = tags
    return {"title": text, **item}


def _opening(text: str) -> int:
    """Where the parenthesis begins that ends with the text; -1: nowhere."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if not depth:
            return at
    return -1


def set_mark(item: dict[str, Any], mark: re.Match[str]) -> None:
    """Adds what a mark (``MARK``) says to the item of a plan."""
    if mark["name"] in _SINGLE:
        item[_SINGLE[mark["name"]]] = mark["value"].strip()
    else:
        item.setdefault("after", []).extend(one.strip() for one in mark["value"].split(",") if one.strip())
