"""Draws a workflow: its graph as an outline for terminals, or as a Mermaid diagram."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from rich.text import Text
from rich.tree import Tree

from coordinator.steps.results import recorded_cut
from coordinator.toolsets.flows import Flow, FlowRecord, FlowRow, Line, Step, StepRecord, outline
from coordinator.wording import printable

_MARKS: Mapping[str, tuple[str, str]] = {
    "done": ("\u2713", "green"),
    "running": ("\u25cf", "yellow"),
    "ready": ("\u25cc", "cyan"),
    "pending": ("\u25f7", "cyan"),
    "paused": ("\u2016", "cyan"),
    "failed": ("\u2717", "bold red"),
    "cancelled": ("\u2298", "dim"),
    "gate": ("\u2016", "bold magenta"),
    "": ("\u00b7", "dim"),
}
"""State of a step -> mark and style; empty: the step has not been created yet."""
_STATUS_STYLES = {"running": "yellow", "paused": "cyan", "completed": "green", "failed": "bold red", "cancelled": "dim"}
_LONGEST_RESULT = 100
"""Characters of a step's result that are shown."""

_MERMAID_STYLES: Mapping[str, str] = {
    "done": "fill:#d9f2d9,stroke:#2e7d32,color:#1b1b1b",
    "running": "fill:#fff3cd,stroke:#b8860b,color:#1b1b1b",
    "ready": "fill:#d6ecf5,stroke:#1f6f8b,color:#1b1b1b",
    "pending": "fill:#d6ecf5,stroke:#1f6f8b,color:#1b1b1b,stroke-dasharray:4 3",
    "paused": "fill:#d6ecf5,stroke:#1f6f8b,color:#1b1b1b,stroke-dasharray:1 3",
    "failed": "fill:#f8d7da,stroke:#a61e2b,color:#1b1b1b",
    "cancelled": "fill:#e2e2e2,stroke:#777777,color:#555555",
    "gate": "fill:#eadcf5,stroke:#6a1b9a,color:#1b1b1b",
    "none": "fill:#ffffff,stroke:#999999,color:#777777",
}


def tree(record: FlowRecord, flow: Flow) -> Tree:
    """The workflow as a rich tree; text from callers is never markup."""
    steps = {step.key: step for step in record.steps}
    root = Tree(_title(record.row), guide_style="dim")
    _add_lines(root, outline(flow), flow, steps)
    return root


def mermaid(record: FlowRecord, flow: Flow) -> str:
    """The workflow's present state as a Mermaid flowchart."""
    steps = {step.key: step for step in record.steps}
    names = {key: f"s{number}" for number, key in enumerate(flow)}
    lines = ["flowchart TD"]
    for key, step in flow.items():
        state = _state(steps.get(key))
        left, right = ("{{", "}}") if step.gate else ("([", "])") if step.done else ("[", "]")
        lines.append(f'  {names[key]}{left}"{_label(step, steps.get(key))}"{right}:::{state or "none"}')
    for key, step in flow.items():
        for target, words in _arrows(step):
            arrow = f'-->|"{_quoted(words)}"|' if words else "-->"
            lines.append(f"  {names[key]} {arrow} {names[target]}")
    lines += [f"  classDef {name} {style}" for name, style in _MERMAID_STYLES.items()]
    return "\n".join(lines)


def time_of(ms: int | None) -> str:
    """A time for people, in UTC; empty for none."""
    if ms is None:
        return ""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def status(row: FlowRow) -> Text:
    return Text(row.status, style=_STATUS_STYLES[row.status])


def _add_lines(parent: Tree, lines: list[Line], flow: Flow, steps: Mapping[str, StepRecord]) -> None:
    for line in lines:
        if line.again:
            parent.add(Text(f"\u2192 {printable(flow[line.key].name)}", style="dim"))
            continue
        node = parent.add(_step_text(flow[line.key], steps.get(line.key)))
        for condition, way in line.ways:
            if condition:
                _add_lines(node.add(Text(f"if {printable(condition)}", style="italic")), way, flow, steps)
            else:
                _add_lines(node.add(Text("in parallel", style="italic")), way, flow, steps)


def _title(row: FlowRow) -> Text:
    title = Text.assemble((printable(row.name), "bold"), f"  {row.id}  ", status(row), f"  by {printable(row.creator)}")
    title.append(f"  {time_of(row.created_at)}", style="dim")
    ended = row.completed_at or row.cancelled_at
    if ended is not None:
        title.append(f"  {_duration(ended - row.created_at)}", style="dim")
    if row.cancelled_by:
        title.append(f"  cancelled by {printable(row.cancelled_by)}", style="dim")
    if row.parent:
        title.append(f"  for {row.parent}", style="dim")
    if row.error:
        title.append(f"\n{printable(row.error)}", style="red")
    return title


def _step_text(step: Step, record: StepRecord | None) -> Text:
    state = _state(record)
    mark, style = _MARKS[state]
    text = Text.assemble((f"{mark} ", style), (printable(step.name), "" if record else "dim"))
    text.append(
        f"  {printable(step.tool or '') or ('gate' if step.gate else 'nothing')}",
        style="blue" if step.tool else "magenta",
    )
    if record is None:
        return text
    if state == "gate":
        text.append(f"  waits for workflow_step_ready, step {record.id}", style=style)
    elif record.status != "done":
        text.append(f"  {record.status}", style=style)
    if record.attempt > 1:
        text.append(f"  attempt {record.attempt}")
    if record.started_at is not None and record.completed_at is not None:
        text.append(f"  {_duration(record.completed_at - record.started_at)}", style="dim")
    if record.approved_by:
        via = f" via {record.via}" if record.via else ""
        text.append(f"  released by {printable(record.approved_by)}{via}", style="dim")
    if record.result_json is not None and step.tool is not None:
        cut = recorded_cut(record.result_json)
        result = printable(cut.beginning if cut is not None else record.result_json)
        short = result if len(result) <= _LONGEST_RESULT else result[: _LONGEST_RESULT - 1] + "\u2026"
        text.append(f"  {short}", style="red" if record.status == "failed" else "dim")
    return text


def _state(record: StepRecord | None) -> str:
    if record is None:
        return ""
    return "gate" if record.gate else record.status


def _arrows(step: Step) -> Iterator[tuple[str, str]]:
    """The targets of a step, each with the label of its arrow."""
    for arm in step.branch:
        yield arm.then, arm.condition
    if not step.branch:
        for target in step.targets:
            yield target, ""


def _label(step: Step, record: StepRecord | None) -> str:
    state = _state(record)
    parts = [step.name, step.tool or ("approval gate" if step.gate else "")]
    if record is not None:
        parts.append(
            "waits" if state == "gate" else state + (f", attempt {record.attempt}" if record.attempt > 1 else "")
        )
    return "<br/>".join(_quoted(part) for part in parts if part)


def _quoted(text: str) -> str:
    """Text for a Mermaid label: special characters become entity codes."""
    return "".join(letter if letter.isalnum() or letter in " _.,:-=!/" else f"#{ord(letter)};" for letter in text)


def _duration(ms: int) -> str:
    if ms < 1000:
        return f"{ms} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
