#!/bin/sh
# What `fleet run --tags count -- config/examples/worker.sh` calls for each item. The item comes on stdin.
# Exit codes: 0 it is done, 75 hand it back, 65 it can never be done; any other is a failed attempt.
set -eu

words=$(wc -w)
[ "$words" -gt 0 ] || exit 65

# The result is what later items get. JSON can say more: outcome, notes, usage (coordinator/runner/README.md).
printf '{"result": {"words": %d}, "notes": {"counted": "by %s"}}' "$words" "$(uname -s)" > "$FLEET_RESULT_FILE"
