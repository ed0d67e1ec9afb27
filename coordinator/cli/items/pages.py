"""The commands of ``fleet items``: where each is implemented, and what its help says."""

from __future__ import annotations

from coordinator.cli.command import Command

ITEM_COMMANDS: dict[str, Command] = {
    "items plan": Command(
        "coordinator.cli.items.planning:plan",
        """Make a tree of work from a plan: a YAML file, or a Markdown task list.

        All of it is made or nothing, and nobody is offered a part before. A plan that was made before is not made
        again. The page of the client library says what plans can have.
        """,
        ("fleet items plan release.md", "fleet items plan release.yaml --parent 550e8400 --dry-run"),
    ),
    "items add": Command(
        "coordinator.cli.items.writing:add",
        "Add a work item, and print it.",
        (
            'fleet items add "Design API schema" --priority high --tags api',
            'fleet items add "Write unit tests" --description "Cover the parser."',
        ),
    ),
    "items list": Command(
        "coordinator.cli.items.reading:show_list",
        "List items: those that are not terminal, unless --role or --all asks for others.",
        ("fleet items list", "fleet items list --role work --tags api --json"),
    ),
    "items ready": Command(
        "coordinator.cli.items.reading:ready",
        "List what can be worked on now, best first: in queue, unclaimed, waiting for nothing.",
        ("fleet items ready", "fleet items ready --tags api --limit 5"),
    ),
    "items show": Command(
        "coordinator.cli.items.reading:show",
        "Print an item: fields, claim, attempts, dependencies, notes, and the results of what blocks it.",
        ("fleet items show 550e8400", "fleet items show 550e8400 --history"),
    ),
    "items tree": Command(
        "coordinator.cli.items.reading:tree",
        "Print items below each other, oldest first.",
        ("fleet items tree", "fleet items tree 550e8400 --depth 1"),
    ),
    "items search": Command(
        "coordinator.cli.items.reading:search",
        "List the items whose title or summary contains a text, in any case.",
        ("fleet items search login", 'fleet items search "rate limit" --role queue'),
    ),
    "items note": Command(
        "coordinator.cli.items.writing:note",
        "Print the notes of an item, or one of them alone; write or delete one.",
        ("fleet items note 550e8400", 'fleet items note 550e8400 findings "The cache is never emptied."'),
    ),
    "items edit": Command(
        "coordinator.cli.items.writing:edit",
        "Change fields of an item.",
        ("fleet items edit 550e8400 --priority high", "fleet items edit 550e8400 --clear description"),
    ),
    "items dep add": Command(
        "coordinator.cli.items.writing:dep_add",
        "Have an item wait for others: `fleet items dep add ITEM BLOCKER ...`.",
        ("fleet items dep add 550e8400 6ba7b810", "fleet items dep add 550e8400 6ba7b810 --unblock-at review"),
    ),
    "items dep rm": Command(
        "coordinator.cli.items.writing:dep_rm",
        "Delete the dependencies between two items, in either direction.",
        ("fleet items dep rm 550e8400 6ba7b810", "fleet items dep rm 550e8400 6ba7b810 --json"),
    ),
    "items start": Command(
        "coordinator.cli.items.moving:start",
        """Begin work on items.

        Of an item in work it ends the phase: on to review where its type has one, else it is done.
        """,
        ("fleet items start 550e8400", "fleet items start . --json"),
    ),
    "items done": Command(
        "coordinator.cli.items.moving:done",
        """Complete items, with a result if one is given.

        An item that waits for others, or lacks notes that its type requires, is refused.
        """,
        ("fleet items done 550e8400", 'fleet items done 550e8400 --result "Merged as 4f2a"'),
    ),
    "items block": Command(
        "coordinator.cli.items.moving:block",
        "Block items until they are resumed.",
        ("fleet items block 550e8400", 'fleet items block 550e8400 --reason "needs a licence"'),
    ),
    "items answer": Command(
        "coordinator.cli.items.moving:answer",
        """Answer the question of a blocked item in a note, and resume it.

        Whoever takes the item next gets question and answer.
        """,
        ('fleet items answer 550e8400 "Use the second one."', "fleet items answer 550e8400 @answer.md"),
    ),
    "items resume": Command(
        "coordinator.cli.items.moving:resume",
        "Bring blocked items back to the role that they had.",
        ("fleet items resume 550e8400", 'fleet items resume 550e8400 --reason "licence bought"'),
    ),
    "items retry": Command(
        "coordinator.cli.items.moving:retry",
        """Offer failed items again at once: resume quarantined ones, and end back-offs.

        The attempts of a quarantined item count anew.
        """,
        ("fleet items retry 550e8400", "fleet items retry 550e8400 6ba7b810"),
    ),
    "items cancel": Command(
        "coordinator.cli.items.moving:cancel",
        "Give items up. What waits for them is no longer held back by them.",
        ("fleet items cancel 550e8400", 'fleet items cancel 550e8400 --reason "no longer needed"'),
    ),
    "items reopen": Command(
        "coordinator.cli.items.moving:reopen",
        "Bring terminal items back to queue.",
        ("fleet items reopen 550e8400", 'fleet items reopen 550e8400 --reason "it broke again"'),
    ),
    "items claim": Command(
        "coordinator.cli.items.moving:claim",
        """Claim an item, or without an id the best one that is offered, and print the claim's fence.

        An agent has one claim: a new one ends the one before. Claiming again renews it. The exit code is not 0 if
        nothing was claimed.
        """,
        ("fleet items claim 550e8400", "fleet items claim --tags api --wait 30 --json"),
    ),
    "items release": Command(
        "coordinator.cli.items.moving:release",
        "Release items that the agent holds.",
        ("fleet items release 550e8400", 'fleet items release 550e8400 --reason failed --detail "no network"'),
    ),
    "items end-claim": Command(
        "coordinator.cli.items.ending:end_claim",
        """End the claim on an item in place of its agent, whose later writes are refused.

        The item is offered to others at once. The history says who ended the claim and why. For operators: like drains
        it works on the fleet's store. If the agent is not to come back, drain it first (`fleet agents drain`).
        """,
        (
            'fleet items end-claim 550e8400 --reason "its host is gone"',
            'fleet items end-claim 550e8400 --reason "runs in circles" --failed',
        ),
    ),
    "items watch": Command(
        "coordinator.cli.items.watching:watch",
        """Print an item whenever it changes, until it is terminal; or wait for something about it.

        Nothing polls. With --until or --note it prints the item once, when it is so. The exit code is 1 if --timeout
        seconds were over before.
        """,
        ("fleet items watch 550e8400", "fleet items watch 550e8400 --until tree --timeout 600"),
    ),
}
"""By the words of the command."""
