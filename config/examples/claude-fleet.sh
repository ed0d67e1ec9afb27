#!/bin/sh
# Claude Code as a fleet: sessions side by side, each item in a git worktree and on a branch of its own.
#
#   FLEET_URL=http://127.0.0.1:8420 config/examples/claude-fleet.sh REPOSITORY [flags of fleet run]
#
# VERIFY must succeed before an item counts as done. Claude may edit files and call what ALLOWED names; nothing is merged or
# pushed: look at the branches fleet-*, and clean up with `fleet run gc`.
set -eu

repository=${1:?the repository that the items are about}
shift

exec fleet run \
    --worktree "$repository" \
    --slots "${SLOTS:-3}" \
    --verify "${VERIFY:-make test}" \
    --max-cost "${MAX_COST:-20}" \
    --timeout "${TIMEOUT:-1h}" \
    "$@" \
    -- claude --permission-mode acceptEdits --allowedTools "${ALLOWED:-Bash(make:*),Bash(git diff:*),Bash(git log:*)}"
