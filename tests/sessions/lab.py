"""A small root of definitions with an example for each rule of the sessions toolset."""

from __future__ import annotations

from pathlib import Path

from tests.support.workflows import Tree

LAB = """\
id: lab
version: 1.2.3
title: The lab
description: "Small, but: complete"
tags[2]: small,test
rules[2]:
  - Be careful
  - "Ask, don't guess"
skills:
  primary: leading
variables[2]:
  - name: ready
    type: boolean
    description: Whether it is ready
    defaultValue: false
  - name: level
    type: number
modes[1]:
  - id: quick
    name: Quick
    activationVariable: is_quick
    skipActivities[1]: measure
initialActivity: prepare
"""
PREPARE = """\
id: prepare
version: 1.0.0
name: Prepare
skills:
  primary: working
  supporting[1]: meta/worker
steps[2]:
  - id: clean
    name: Clean the bench
  - id: set-up
    name: Set up
    skill: setting-up
loops[1]:
  - id: each
    name: For each probe
    type: forEach
    over: probes
    steps[2]:
      - id: label
        name: Label it
        skill: meta/worker
      - id: store
        name: Store it
checkpoints[7]:
  - id: go
    name: Go ahead
    message: "Ready to go: shall we?"
    options[3]:
      - id: proceed
        label: Proceed
        description: "Yes, go on"
        effect:
          setVariable:
            ready: true
      - id: stop
        label: Stop
        effect:
          setVariable:
            ready: false
            level: 0
          transitionTo: report
          skipActivities[1]: measure
      - id: plain
        label: Nothing follows
  - id: maybe
    name: Only maybe
    message: Asked only if it is not ready
    condition:
      type: and
      conditions[2]:
        - type: simple
          variable: ready
          operator: "!="
          value: true
        - type: simple
          variable: level
          operator: exists
    options[1]:
      - id: fine
        label: Fine
  - id: timed
    name: Timed
    message: Goes on by itself
    blocking: false
    defaultOption: first
    autoAdvanceMs: 90600
    options[2]:
      - id: first
        label: First
        effect:
          setVariable:
            level: 1
      - id: second
        label: Second
  - id: stubborn
    name: Timed but blocking
    message: Does not go on by itself
    defaultOption: first
    autoAdvanceMs: 1
    options[1]:
      - id: first
        label: First
  - id: broken
    name: Timed without its default
    message: Cannot go on by itself
    blocking: false
    defaultOption: nowhere
    autoAdvanceMs: 1
    options[1]:
      - id: first
        label: First
  - id: timeless
    name: With a default but no time
    message: Does not go on by itself
    blocking: false
    defaultOption: first
    options[1]:
      - id: first
        label: First
  - id: undecided
    name: Timed without any default
    message: Cannot go on by itself
    blocking: false
    autoAdvanceMs: 1
    options[1]:
      - id: first
        label: First
decisions[1]:
  - id: which
    name: Which way
    branches[2]:
      - id: careful
        label: Carefully
        condition:
          type: simple
          variable: level
          operator: ">"
          value: 3
        transitionTo: measure
      - id: bold
        label: Boldly
        isDefault: true
transitions[2]:
  - to: measure
    condition:
      type: not
      condition:
        type: simple
        variable: ready
        operator: notExists
  - to: report
    isDefault: true
"""
MEASURE = """\
id: measure
version: 1.0.0
name: Measure
required: false
skills:
  primary: worker
steps[3]:
  - id: one
    name: One
  - id: two
    name: Two
  - id: three
    name: Three
    required: false
transitions[2]:
  - to: report
    isDefault: true
  - to: workflow-end
    condition:
      type: simple
      variable: level
      operator: ==
      value: 0
"""
REPORT = """\
id: report
version: 1.0.0
name: Report
"""
SKILL = """\
id: {id}
version: 1.0.0
capability: {capability}
"""
GUIDE = "---\nid: bootstrap\nversion: 2.0.0\n---\n\n# Begin\n\n1. `start_session`\n"
NOTES = '---\nid: notes\nversion: "1.1.0"\n---\n\n# Notes\n\nText.\n\n'
PLAIN = "# Plain\n\nNo front matter.\n"
TABLE = 'id: table\nversion: 3.0.0\ntitle: "A table"\n'


def write(root: Path) -> Path:
    """Writes the definitions below a folder and returns it."""
    tree = Tree(root)
    tree.write("lab/workflow.toon", LAB)
    tree.write("lab/activities/01-prepare.toon", PREPARE)
    tree.write("lab/activities/02-measure.toon", MEASURE)
    tree.write("lab/activities/03-report.toon", REPORT)
    for number, name in enumerate(("leading", "working", "setting-up")):
        tree.write(f"lab/skills/{number:02}-{name}.toon", SKILL.format(id=name, capability=f"Of the lab: {name}"))
    tree.write("lab/resources/00-notes.md", NOTES)
    tree.write("lab/resources/01-plain.md", PLAIN)
    tree.write("lab/resources/07-table.toon", TABLE)
    tree.write("lab/resources/07-table.md", "never seen\n")
    tree.workflow("meta", "begin", "end")
    tree.write("meta/skills/00-worker.toon", SKILL.format(id="worker", capability="Of everybody: worker"))
    tree.write("meta/skills/01-working.toon", SKILL.format(id="working", capability="Hidden by that of the lab"))
    tree.write("meta/resources/00-bootstrap.md", GUIDE)
    # Borrows an activity of the lab, with the lab's skills; has no existing skill of its own.
    tree.write(
        "annex/workflow.toon",
        "id: annex\nversion: 0.1.0\ntitle: The annex\nskills:\n  primary: missing\n"
        "activities[1]: lab/activities/01-prepare.toon\n",
    )
    tree.write("annex/activities/01-wait.toon", REPORT.replace("report", "wait"))
    tree.write("bare/workflow.toon", "id: bare\nversion: 1.0.0\ntitle: Bare\n")
    tree.write("bare/activities/01-only.toon", REPORT.replace("report", "only"))
    return tree.root


def step_manifest(*steps: str) -> list[dict[str, str]]:
    """A report on steps."""
    return [{"step_id": step, "output": f"{step} is done"} for step in steps]


PREPARED = step_manifest("clean", "set-up")
MEASURED = step_manifest("one", "two", "three")
