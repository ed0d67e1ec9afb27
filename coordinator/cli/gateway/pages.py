"""The commands of ``fleet gateway``: where each is implemented, and what its help says."""

from __future__ import annotations

from coordinator.cli.command import Command

GATEWAY_COMMANDS: dict[str, Command] = {
    "gateway check": Command(
        "coordinator.cli.gateway.check:check",
        """List what is wrong with the gateway in a config file, or in a file of its own.

        Reports errors with file and line: references to nothing, malformed expressions and schemas, targets
        that do not exist; and warnings: states that nothing leads to, or that lead nowhere. The exit code is
        not 0 if there are errors.
        """,
        ("fleet gateway check config/gateway.yaml", "fleet gateway check ./gateway.yaml"),
    ),
    "gateway connections": Command(
        "coordinator.cli.gateway.connections:connections",
        """List the connections to servers and programs, with what became of their last use, and when.

        That is what the workers report: nothing is connected to, and one that nobody has used is `not tried`. The exit
        code is not 0 if one fails, or if a worker lacks an environment variable.
        """,
        ("fleet gateway connections", "fleet gateway connections --format json"),
    ),
    "gateway tools": Command(
        "coordinator.cli.gateway.tools:tools",
        """List the tools that the gateway imports; with --left-out those that it cannot offer, each with the reason.

        Reads what the workers have listed last, and asks no server. Needs the settings of the fleet: its config
        file.
        """,
        ("fleet gateway tools", "fleet gateway tools --left-out --json"),
    ),
    "gateway audit": Command(
        "coordinator.cli.gateway.records:audit",
        "Print what happened, oldest first.",
        ("fleet gateway audit", "fleet gateway audit --count 20 --format json"),
    ),
    "gateway approvals list": Command(
        "coordinator.cli.gateway.records:approvals",
        "List open approvals, oldest first.",
        ("fleet gateway approvals list", "fleet gateway approvals list --queue releases"),
    ),
    "gateway approvals show": Command(
        "coordinator.cli.gateway.records:show_approval",
        "Print an approval and its possible answers.",
        (
            "fleet gateway approvals show hr_4be1f1d7a6c6a2b0",
            "fleet gateway approvals show hr_4be1f1d7a6c6a2b0 --data-dir ./data",
        ),
    ),
    "gateway approvals resolve": Command(
        "coordinator.cli.gateway.records:resolve",
        """Answer an approval by taking a transition as a person.

        Needs access to the fleet's Redis, and no other permission. The answer is recorded under the user at the
        terminal, or under the name given with --by.
        """,
        (
            "fleet gateway approvals resolve hr_4be1f1d7a6c6a2b0 approve",
            "fleet gateway approvals resolve hr_4be1f1d7a6c6a2b0 reject --by alice",
        ),
    ),
}
