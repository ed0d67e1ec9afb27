"""Examples of the sections that only a file can hold; together they are one working configuration."""

from __future__ import annotations

WORK_ITEM_SCHEMAS = """\
work_item_schemas:
  feature:
    lifecycle: manual
    notes:
      - key: acceptance-criteria
        role: queue
        required: true
        description: What must be true when this is done.
  bug:
    default_traits: [needs-review]
    max_attempts: 3
    resources:
      - key: model/opus
    notes:
      - key: reproduction
        role: queue
        required: true
        description: Steps that show the fault.
        guidance: Give the shortest steps, what you expected and what happened.
        skill: reproduce-bug
      - key: root-cause
        role: work
        required: true
  task:
    lifecycle: auto-reopen
    notes:
      - key: result
        role: work
        required: true
        description: What was done, and where.
"""
RESOURCES = """\
resources:
  gpu: 2
  model/opus: {capacity: 5, perMinute: 60}
"""
BUDGETS = """\
budgets:
  agents:
    "night-*":
      day: {costMicroUsd: 20000000}
  projects:
    default:
      day: {costMicroUsd: 100000000, tokens: 50000000}
      total: {costMicroUsd: 1000000000}
"""
TRAITS = """\
traits:
  needs-review:
    notes:
      - key: review-verdict
        role: review
        required: true
        description: Who looked at it, and what they found.
"""
DEFAULT_TRAITS = """\
default_traits: [needs-review]
"""
DEFAULT = """\
default: task
"""
NOTE_SCHEMAS = """\
note_schemas:
  feature:
    - key: acceptance-criteria
      role: queue
      required: true
"""
AUTH_VERIFIER = """\
auth:
  verifier:
    type: jwks
    oidc_discovery: https://login.example.org/.well-known/openid-configuration
    algorithms: [RS256]
"""
STEP_TOOLS = """\
flows:
  tools:
    word_count: mypackage.texts:word_count
"""
PROJECT_POOLS = """\
steps:
  project_pools: {rendering: gpu}
"""
PROJECT_LIMITS = """\
  project_limits: {nightly: 20}
"""
CONNECTIONS = """\
connections:
  files:
    kind: mcp
    command: npx
    args: ["-y", "@modelcontextprotocol/server-filesystem", "/srv/files"]
  search:
    kind: mcp
    url: https://search.example.org/mcp
    headers: {Authorization: "Bearer ${SEARCH_TOKEN}"}
"""
CONSOLE_OAUTH = """\
console:
  oauth:
    client_id: fleet-console
    client_secret_env: CONSOLE_CLIENT_SECRET
    scopes: [openid, items, flows]
"""
WEBHOOKS = """\
webhooks:
  tracker:
    url: https://tracker.example.org/hooks/fleet
    secret_env: TRACKER_WEBHOOK_SECRET
    kinds: [item.transition, "flow.*"]
"""
RUNNERS = """\
runners:
  docs:
    command: [claude, --permission-mode, acceptEdits]
    tags: docs
    slots: 2
    worktree: /srv/app
    verify: make test
    max_cost: 20
    usage_per_attempt: cost=5,tokens=20000000
"""
GATEWAY = """\
gateway:
  version: "1.0.0"
  connections:
    git: {kind: cli, command: git, workingDirectory: /srv/app}
    browser: {kind: mcp, command: npx, args: ["-y", "@playwright/mcp"]}
  proxy:
    import:
      - connection: browser
        prefix: browser
        # Each attempt may take a minute; while the tool reports progress, a minute more each time, up to ten.
        reliability: {timeoutMs: 60000, maxTotalTimeoutMs: 600000}
  capabilities:
    git.log:
      title: Recent commits
      executor: {kind: cli, connection: git, args: [log, --oneline, -n, "20"]}
  workflows:
    change:
      title: Review a change
      initialState: written
      states:
        written:
          transitions:
            ask: {title: Ask for a review, target: asked, executor: {kind: human, queue: reviews}}
        asked:
          transitions:
            approve: {title: Approve, actor: human, target: approved}
        approved: {terminal: true}
"""
STATUS_LABELS = """\
status_labels:
  start: in-progress
  complete: done
  block: blocked
  hold: null
  cascade: done
"""
