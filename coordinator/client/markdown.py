"""Plans as Markdown task lists.

    # Release 2
    - [ ] Build #ci !high (ref: build)
    - [ ] Write notes #docs (after: build)
      What has changed since 1.9, for users.
      - [ ] Collect the changes
      - [ ] Write them up (after: Collect the changes)
    - [x] Choose a date

The first heading is the title. Indented tasks are children, other indented text is the description. Tasks of a numbered
list are done one after the other. What stands in a fence is text.
"""

from __future__ import annotations

import re
from typing import Any

_TASK = re.compile(r"(?P<indent>\s*)(?:[-*+]|(?P<number>\d+)[.)])\s+(?:\[(?P<box>[ xX])\]\s+)?(?P<text>\S.*)")
_HEADING = re.compile(r"#{1,6}\s+(?P<title>.*\S)")
_SUFFIX = re.compile(
    r"\s+(?:#(?P<tag>[a-z0-9][\w.:/-]*)|!(?P<priority>high|medium|low)|\((?P<name>after|ref):\s*(?P<value>[^()]+)\))\s*$"
)
_FENCE = re.compile(r"\s*(```|~~~)")


def markdown(text: str, title: str) -> dict[str, Any]:
    """The mapping that a Markdown task list stands for.

    Args:
        title: of the plan, if the text has no heading.
    """
    root: dict[str, Any] = {"title": "", "children": []}
    items: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    open_items: list[tuple[int, dict[str, Any]]] = [(-1, root)]
    fenced = False
    for line in text.expandtabs(4).splitlines():
        fenced ^= _FENCE.match(line) is not None
        task = None if fenced else _TASK.fullmatch(line)
        if task is not None:
            depth = len(task["indent"])
            while open_items[-1][0] >= depth:
                open_items.pop()
            siblings = open_items[-1][1].setdefault("children", [])
            siblings.append(item := _task(task["text"], (task["box"] or " ") in "xX"))
            items.append(item)
            if task["number"] is not None:
                steps.append(item)
                if len(siblings) > 1 and siblings[-2] in steps:
                    siblings[-2].setdefault("ref", f"step {len(steps) - 1}")
                    item.setdefault("after", []).append(siblings[-2]["ref"])
            open_items.append((depth, item))
        elif (heading := _HEADING.fullmatch(line.strip())) and not fenced and not line.startswith(" "):
            if not root["title"]:
                root["title"] = heading["title"]
        elif line.strip() or len(open_items) > 1:
            indent = len(line) - len(line.lstrip()) if line.strip() else open_items[-1][0] + 1
            depth, owner = next(one for one in reversed(open_items) if one[0] < indent)
            if line.strip() or "description" in owner:
                owner["description"] = f"{owner.get('description', '')}{line[min(indent, depth + 2) :].rstrip()}\n"
    root["title"] = root["title"] or title
    for item in [root, *items]:
        if "description" in item:
            item["description"] = item["description"].rstrip()
    return root


def _task(text: str, done: bool) -> dict[str, Any]:
    item: dict[str, Any] = {"done": done} if done else {}
    tags: list[str] = []
    while found := _SUFFIX.search(text):
        text = text[: found.start()]
        if found["tag"]:
            tags.insert(0, found["tag"])
        elif found["priority"]:
            item["priority"] = found["priority"]
        elif found["name"] == "ref":
            item["ref"] = found["value"].strip()
        else:
            item["after"] = [one.strip() for one in found["value"].split(",") if one.strip()]
    if tags:
        item["tags"] = tags
    return {"title": text.strip(), **item}
