"""The commands of ``fleet``: where each is implemented, and what its help says.

The help is here and not in docstrings, because ``fleet --help`` lists all commands without importing any. So functions
of commands have no docstrings.
"""

from __future__ import annotations

from coordinator.cli.command import Command
from coordinator.cli.gateway.pages import GATEWAY_COMMANDS
from coordinator.cli.items.pages import ITEM_COMMANDS

COMMANDS: dict[str, Command] = {
    "up": Command(
        "coordinator.cli.processes.up:up",
        """Run a whole fleet on this machine: Redis, front-ends and workers.

        Without --redis-url it starts a private Redis, whose data in --data-dir is kept across restarts.
        When everything answers it prints a line with 'ready' and the base URL. Ctrl-C or SIGTERM lets
        requests in flight finish, then stops everything; processes that die are restarted. SIGHUP applies
        those settings of a changed config file that need no restart.
        """,
        ("fleet up", "fleet up --port 9000 --frontends 4 --data-dir ./data"),
    ),
    "status": Command(
        "coordinator.cli.processes.status:status",
        """Show what runs on a data directory, and whether it is well.

        Processes with their ids, ports, health, versions. The exit code is 0 if a fleet runs there and is well, 1 if
        something is wrong with it, 6 if none runs.
        """,
        ("fleet status", "fleet status --data-dir ./data --json"),
    ),
    "stop": Command(
        "coordinator.cli.processes.stop:stop",
        """Stop the fleet of a data directory, and wait for its end.

        That is the one of `fleet up`. Work in progress may end, as after Ctrl-C. What is left of a fleet that was
        killed is ended, too.
        """,
        ("fleet stop", "fleet stop --data-dir ./data --wait 300"),
    ),
    "serve": Command(
        "coordinator.cli.processes.serve:serve",
        """Run front-end processes only, against an existing Redis.

        For deployments where something else runs the Redis and restarts processes. Start as many as the
        load needs, on any number of machines: they share nothing but the Redis.
        """,
        ("fleet serve --redis-url redis://127.0.0.1:6379/0", "fleet serve --data-dir ./data --port 9000 --frontends 4"),
    ),
    "worker": Command(
        "coordinator.cli.processes.worker:worker",
        """Run one worker process, which executes workflow steps.

        Needs the same Redis as the front-ends. Workers can be added, stopped and killed at any time; the
        steps of a killed one run again elsewhere.
        """,
        ("fleet worker --redis-url redis://127.0.0.1:6379/0", "fleet worker --data-dir ./data --worker-port 9100"),
    ),
    "run": Command(
        "coordinator.cli.runners.command:app",
        """Run a command for each work item: an agent's command line, or any script.

        The item comes on stdin. Exit code 0 completes it, 75 hands it back, 65 quarantines it, 126 and 127 stop the
        runner; others are failed attempts. Of claude, codex, gemini, opencode and aider it reads success, limits and
        cost. The command gets FLEET_ITEM_ID, FLEET_RESULT_FILE and little else of this environment; all that
        it starts ends with it. SIGTERM and Ctrl-C let commands end within --drain; a second one ends them at once.
        Further flags are in coordinator/runner/README.md.
        """,
        (
            "fleet run --tags docs --slots 2 -- ./write-docs.sh",
            "fleet run --worktree . --verify 'make test' -- claude --permission-mode auto",
        ),
    ),
    "run gc": Command(
        "coordinator.cli.runners.gc:gc",
        """Remove worktrees and branches of attempts, and say why others are kept.

        A worktree goes if no file or commit in it would be lost, and nobody works in it; a branch, if its base has its
        work: merged, cherry-picked or squashed. With --salvage, what is not committed is put on a ref first.
        """,
        ("fleet run gc --dry-run", "fleet run gc --worktree . --salvage --disposable 'dist/'"),
    ),
    "stdio": Command(
        "coordinator.cli.processes.stdio:stdio",
        """Speak MCP on stdin and stdout, for one local agent.

        Works on the same data as the fleet of the data directory (or of --redis-url), and starts the
        embedded Redis if no fleet runs. Stdout carries nothing but the protocol; logs go to stderr.
        """,
        ("fleet stdio", "fleet stdio --toolset items --toolset flows --project team-a"),
    ),
    "tools": Command(
        "coordinator.cli.agents.tools:tools",
        """Print what the tools of a toolset take and answer, on one page.

        `fleet tools items` is the reference of the work items' tools: a table of arguments, an example call
        and the shape of the answer for each, made from the contracts that the tools are served with.
        """,
        ("fleet tools", "fleet tools items"),
    ),
    "agents-md": Command(
        "coordinator.cli.agents.instructions:agents_md",
        """Print instructions for agents, for an AGENTS.md or as a skill.

        For workers, with the tools of /mcp/worker, or for orchestrators, with those of /mcp/items. Agents whose host
        shows them MCP prompts have the same as the prompts `work` and `orchestrate`. With --file the block is written
        into a file, and renewed there by the next call.
        """,
        ("fleet agents-md worker --file AGENTS.md", "fleet agents-md orchestrator --skill"),
    ),
    "audit": Command(
        "coordinator.cli.reports.audit:audit",
        """Recount a project: do indexes, counters, claims fit its items?

        Changes nothing and may run while the project is in use. Reports every difference; the exit code is
        not 0 if there is one.
        """,
        ("fleet audit", "fleet audit --project default --format json"),
    ),
    "drain": Command(
        "coordinator.cli.processes.drain:drain",
        """Ask the fleet, a host or one process to take no new work, and wait until work in progress is done.

        Claims, creates, searches and waiting calls are turned away with `draining`; heartbeats, releases,
        transitions and reads are answered, and workers begin no further steps. Also applies to processes that
        start later, until it is ended with --end.
        """,
        ("fleet drain --wait 60", "fleet drain --end"),
    ),
    "console": Command(
        "coordinator.cli.console:console",
        """Print a link that signs you in to the console, a web page.

        The link is good once, for 60 seconds, and signs you in under your user name, with all permissions: whoever can
        run this has access to the fleet's store already. Needs the settings of the fleet: its config file and
        environment.
        """,
        ("fleet console", "fleet console --data-dir ./data"),
    ),
    "store accept": Command(
        "coordinator.cli.store:accept",
        """Have the store that is there now take the place of the one that the fleet had.

        Processes refuse every call (`store_changed`) when they find another store, or an emptied one. If that is
        what you want, accept it: they serve it within a second or two, on every host. In a cluster, the projects
        of an emptied shard are accepted, too. Where the embedded store does not run, the next `fleet up` takes
        the data that it finds.
        """,
        ("fleet store accept", "fleet store accept --data-dir ./data"),
    ),
    "cluster status": Command(
        "coordinator.cli.cluster:status",
        """Show the cluster that is the store: shards, nodes, slots and projects.

        Asks every node. Names those that do not answer, slots that nobody has or that are on their way, and settings
        that are recommended against; the exit code is 0 only if there is nothing of that kind.
        """,
        ("fleet cluster status", "fleet cluster status --redis-url redis+cluster://10.0.0.1,10.0.0.2"),
    ),
    "project list": Command(
        "coordinator.cli.projects.command:list_",
        """List the projects of the store: keys, size, shard and last change of each.

        Reads the names of all keys in slices, so on a large store it takes a while; it changes nothing and may run
        while the fleet works. What could not be counted is named, as projects whose shard does not answer or that are
        being moved; the exit code is 0 only if there is nothing of that kind.
        """,
        ("fleet project list", "fleet project list --json"),
    ),
    "project copy": Command(
        "coordinator.cli.projects.copy_command:copy",
        """Copy or move a project to another store, or back it up, while other projects are in use.

        The project is refused meanwhile, here and there, and the copy is audited before anybody sees it. It is not
        served there (a backup) unless `fleet project accept` says so; with --delete-source it is served there, and no
        more here. The same command continues a copy that was interrupted. Also from one Redis to a cluster and back.
        """,
        (
            "fleet project copy web --to redis+cluster://10.0.0.1,10.0.0.2 --delete-source",
            "fleet project copy web --to redis://backup:6379/3",
        ),
    ),
    "project move": Command(
        "coordinator.cli.projects.move_command:move",
        """Move a project to another shard of its cluster, with the other projects in the same slot, which it names.

        Servers that can move a slot as a whole (Valkey 9, Redis 8.4) serve the project until the end; with others its
        callers are told to retry meanwhile. A move that was interrupted is completed by the next.
        """,
        ("fleet project move web --to 2", "fleet project move web --to 0 --redis-url redis+cluster://10.0.0.1"),
    ),
    "project accept": Command(
        "coordinator.cli.projects.copy_command:accept",
        """Serve the copy of a project that is in this store, in place of the one that it was copied from.

        Nothing checks whether that one is served, too: see that it is not.
        """,
        ("fleet project accept web", "fleet project accept web --redis-url redis://backup:6379/3"),
    ),
    "project pause": Command(
        "coordinator.cli.projects.pause_command:pause",
        """Let nobody claim an item of a project until it is resumed.

        Work that goes on is not touched: renewals, notes, results and releases succeed. Claims that wait stay where
        they are, and get their items in order afterwards; others get the outcome project_paused, with the reason.
        """,
        ("fleet project pause web", "fleet project pause web --reason 'the staging cluster is down'"),
    ),
    "project resume": Command(
        "coordinator.cli.projects.pause_command:resume",
        "Let agents claim items of a paused project again, those that wait first.",
        ("fleet project resume web", "fleet project resume web --json"),
    ),
    "top": Command(
        "coordinator.cli.top.command:top",
        """Show what the fleet does right now: calls, latencies, shedding, claims, contention, store and workers.

        Reads the metrics of the fleet of the data directory, or of --url, every few seconds until interrupted;
        --once prints one interval. Sends FLEET_TOKEN to a fleet that requires a token.
        """,
        ("fleet top", "fleet top --once"),
    ),
    "events": Command(
        "coordinator.cli.reports.events:events",
        """Print what happens in a project: its change feed.

        Prints the last events that are kept, or goes on with those that come (--follow). Cursors are those of
        GET /feed/PROJECT; with --json, each event has its own.
        """,
        ("fleet events --follow", "fleet events --kinds item.transition,flow.ended --json"),
    ),
    "demo": Command(
        "coordinator.cli.demo:demo",
        """Let many MCP clients drain a real tree of work, and audit that all of it was done once.

        Builds work items from the dependency graph of the installed Python distributions, has agents claim
        and complete them over HTTP while some of them crash, then audits the project. The exit code is not 0
        if anything was not done once, or does not agree. Starts a fleet of its own if none is running.
        """,
        ("fleet demo", "fleet demo --agents 200 --chaos"),
    ),
    "completion": Command(
        "coordinator.cli.completion:completion",
        """Print the script with which a shell completes commands, flags, their values, and the ids of items.

        For bash: `eval "$(fleet completion bash)"` in ~/.bashrc, or the output as a file `fleet` in
        ~/.local/share/bash-completion/completions. For zsh: the output as a file `_fleet` in a directory of $fpath. For
        fish: the output as ~/.config/fish/completions/fleet.fish.
        """,
        ("fleet completion bash", "fleet completion fish > ~/.config/fish/completions/fleet.fish"),
    ),
    "export": Command(
        "coordinator.cli.projects.export:export",
        """Write the items of a project as tasks in Markdown, for beads, or whole.

        What was written as Markdown or for beads can be changed and imported again: it updates the same items. The
        format fleet has everything but claims, and is read from the store; `fleet import` restores it.
        """,
        ("fleet export --format markdown > TODO.md", "fleet export --format fleet > project.jsonl"),
    ),
    "import": Command(
        "coordinator.cli.projects.import_:import_",
        """Make items of what another tracker has; a second import updates them, and makes none twice.

        Only what has changed at the source is updated, so what was changed here stays. Items that an agent holds are
        left as they are; nothing is deleted. An interrupted import is continued by running it again. The format fleet
        restores an exported project as it was, into one that is empty; it works on the store.
        """,
        ("fleet import --format markdown TODO.md", "fleet import --format beads --dry-run issues.jsonl"),
    ),
    "config show": Command(
        "coordinator.cli.config.show:show",
        """Print every setting in force and where its value came from.

        Takes the same flags, environment variables and file as the other commands, so it shows what they
        would run with. Passwords are masked.
        """,
        ("fleet config show", "fleet config show --port 9000 --format json"),
    ),
    "config example": Command(
        "coordinator.cli.config.show:example",
        "Print a config file that states every setting with its default, unit and limits.",
        ("fleet config example", "fleet config example > fleet.yaml"),
    ),
    "config check": Command(
        "coordinator.cli.config.check:check",
        """List what is wrong with a config file, or explain what it means.

        All problems are reported together, each with its line, and the exit code is 2. A sound file is
        explained: which notes each schema needs in each phase, traits, status labels, and what in it is
        ignored. A running fleet applies a changed file on SIGHUP to its supervisor.
        """,
        ("fleet config check config/fleet.yaml", "fleet config check config/gateway.yaml"),
    ),
    "agents": Command(
        "coordinator.cli.agents.commands:app",
        """List the agents of the last day and what they do; drain agents.

        Shows for each agent what it holds or waits for, when it was last seen, and its capabilities; then which
        agents are being drained.
        """,
        ("fleet agents", "fleet agents --json --project default"),
    ),
    "agents drain": Command(
        "coordinator.cli.agents.commands:drain",
        """Let an agent finish what it holds, and claim no more, until it is undrained.

        NAME is an agent's id, or what precedes a '/' in the ids of several, such as those of one token. Their
        claims get the outcome agent_draining, also those that are waiting now; their renewals say stop.
        """,
        ("fleet agents drain builder-7", "fleet agents drain builder --project default"),
    ),
    "agents undrain": Command(
        "coordinator.cli.agents.commands:undrain",
        "Let drained agents claim again.",
        ("fleet agents undrain builder-7", "fleet agents undrain builder --project default"),
    ),
    "usage": Command(
        "coordinator.cli.reports.usage:usage",
        """Show what agents have used in a project: cost, tokens and time, by item, agent, model or day.

        As they report it with what they do. Sums of items include everything below them, and are listed for the 1,000
        with the most usage. Those of agents, models and days are of the whole project; days are in UTC.
        """,
        ("fleet usage", "fleet usage --by agent --project default"),
    ),
    "audit-log tail": Command(
        "coordinator.cli.reports.audit_log:tail",
        """Print what operators have done, in the console and by commands: when, who, what, why, and what came of it.

        That is what people change in the console, and by commands: drains, ended claims, answered approvals, changes
        of workflows and webhooks, copied, moved and restored projects, accepted stores. `unknown` is what is being
        done, or was interrupted. The last 10,000 events of the fleet are kept.
        """,
        ("fleet audit-log tail", "fleet audit-log tail -n 50 --project default --json"),
    ),
    "doctor": Command(
        "coordinator.cli.doctor.command:app",
        """Check all that the fleet depends on; silent when all is well.

        Checks the Redis (which one it is, persistence, eviction, memory, role, clock, latency, keys, layout,
        permissions, writes), what is drained, what work was left in the middle, whether a worker serves each queue
        of steps, this host's limits and free space, the token file, and whether the times in the settings fit into
        each other. The exit code is not 0 if anything is worth a look; --verbose also prints the checks that pass.

        Of the fleet's processes on this host it also says which alerts on a state hold now, however long they have:
        their gauges are read (not those of runners with a page of their own), and each is named with its runbook. A
        page fails, a ticket warns (StepsStay is a note, because only its duration is a trouble). Not checked are
        alerts on rates, latencies and scrapes, which one look cannot see: CallsFail, ClaimsSlow, ClaimsExpire,
        CriticalCallsShed, EventLoopLate, EventsTrimmed, FeedLate, FleetNotScraped, ForeignFunctions, HighContention,
        LeasesLost, ProcessesRestart, ReloadRefused, RequestIdsReused, SheddingForLong, StaleFences, StepsWait,
        StoreRedirects, StoreSlow, StoreWentBack.
        """,
        ("fleet doctor", "fleet doctor --verbose"),
    ),
    "doctor identity": Command(
        "coordinator.cli.doctor.identity:identity",
        """Try the sources of keys that verify actors and bearer tokens, and say what a token would be worth.

        Asks every source once, whatever the fleet has, and compares with the fleet's copy of the keys if the fleet
        runs. Proofs are neither printed nor kept. The exit code is not 0 if anything fails.
        """,
        ("fleet doctor identity", "fleet doctor identity --format json"),
    ),
    "token create": Command(
        "coordinator.cli.config.token:create",
        """Add a token to the token file, and print it.

        The token is printed this one time, alone on stdout; the file keeps only its SHA-256 digest. A running
        fleet accepts it within two seconds.
        """,
        (
            "fleet token create alice --file tokens.yaml",
            "fleet token create ci --permission items --expires 30d --file tokens.yaml",
        ),
    ),
    "token list": Command(
        "coordinator.cli.config.token:show",
        "List the tokens of the token file, by their keys.",
        ("fleet token list --file tokens.yaml", "fleet token list --file tokens.yaml --format json"),
    ),
    "token replace": Command(
        "coordinator.cli.config.token:replace",
        """Add a token in the place of another one, by its key, and print it.

        It has the same id and rights. What was begun with the other token goes on with it, also after the other one
        was revoked, which is yours to do once everybody has the new one.
        """,
        (
            "fleet token replace 0a1b2c3d4e5f --file tokens.yaml",
            "fleet token replace 0a1b2c3d4e5f --expires 30d --file tokens.yaml",
        ),
    ),
    "token revoke": Command(
        "coordinator.cli.config.token:revoke",
        """Remove a token from the token file, by its key, or all tokens of an id.

        A running fleet refuses it within two seconds; what was begun with it ends, unless another token replaces it.
        """,
        ("fleet token revoke alice --file tokens.yaml", "fleet token revoke ci --file tokens.yaml"),
    ),
    "definitions check": Command(
        "coordinator.cli.config.definitions:check",
        """List what is wrong with a folder of workflow definitions.

        Reports files that cannot be used, errors of notation that were forgiven, transitions that lead
        nowhere, missing skills and activities that nothing leads to. The exit code is not 0 if anything is
        broken or wrong; what is only odd leaves it at 0.
        """,
        ("fleet definitions check config/workflows", "fleet definitions check ./workflows"),
    ),
    "flows list": Command(
        "coordinator.cli.flows.commands:show_list",
        "List workflows, newest first.",
        ("fleet flows list", "fleet flows list --status running --limit 5"),
    ),
    "flows show": Command(
        "coordinator.cli.flows.commands:show",
        "Draw a workflow's graph with the state of each step, or print it as a Mermaid flowchart.",
        ("fleet flows show 1764131594123", "fleet flows show 1764131594123 --format mermaid"),
    ),
    "flows cancel": Command(
        "coordinator.cli.flows.commands:cancel",
        "Cancel a running or paused workflow and stop its steps.",
        ("fleet flows cancel 1764131594123", "fleet flows cancel 1764131594123 --data-dir ./data"),
    ),
    "flows pause": Command(
        "coordinator.cli.flows.commands:pause",
        """Let no further step of a workflow begin until it is resumed; steps that run go on.

        What is due meanwhile, as delays, retries and expiries of gates, waits for the resume.
        """,
        ("fleet flows pause 1764131594123", "fleet flows pause 1764131594123 --data-dir ./data"),
    ),
    "flows resume": Command(
        "coordinator.cli.flows.commands:resume",
        "Let a paused workflow go on.",
        ("fleet flows resume 1764131594123", "fleet flows resume 1764131594123 --data-dir ./data"),
    ),
    "flows retry": Command(
        "coordinator.cli.flows.commands:retry",
        "Run the failed and cancelled steps of a workflow again; finished steps are kept.",
        ("fleet flows retry 1764131594123", "fleet flows retry 1764131594123 --data-dir ./data"),
    ),
    "flows tools": Command(
        "coordinator.cli.flows.tools:tools",
        """List the tools that steps can call: the coordinator's own, Python callables, those of connections.

        Asks every connection. If one does not answer, the others are still listed and the exit code is not 0.
        """,
        ("fleet flows tools", "fleet flows tools --format json"),
    ),
    **GATEWAY_COMMANDS,
    **ITEM_COMMANDS,
    "webhooks list": Command(
        "coordinator.cli.webhooks:show_list",
        """List the webhooks of the settings: how deliveries go, and what went wrong last.

        Needs the settings of the fleet: its config file and environment.
        """,
        ("fleet webhooks list --config fleet.yaml", "fleet webhooks list --config fleet.yaml --format json"),
    ),
    "webhooks test": Command(
        "coordinator.cli.webhooks:test",
        """Send a signed message `webhook.test` to a webhook from this machine, and say what its receiver answered.

        Changes nothing: what waits for the webhook goes on waiting. The exit code is not 0 if it is not taken.
        """,
        ("fleet webhooks test tracker --config fleet.yaml", "fleet webhooks test tracker --redis-url redis://redis"),
    ),
    "webhooks pause": Command(
        "coordinator.cli.webhooks:pause",
        """Send nothing to a webhook until it is resumed; it keeps its place.

        Events that are no longer kept by then (`events_max`) are left out, and the receiver is told.
        """,
        ("fleet webhooks pause tracker --config fleet.yaml", "fleet webhooks pause tracker --redis-url redis://redis"),
    ),
    "webhooks resume": Command(
        "coordinator.cli.webhooks:resume",
        """Let a paused or disabled webhook go on from its place; one that fails is tried again at once.

        The front-end that delivers notices within 5 seconds.
        """,
        (
            "fleet webhooks resume tracker --config fleet.yaml",
            "fleet webhooks resume tracker --redis-url redis://redis",
        ),
    ),
    "webhooks rotate": Command(
        "coordinator.cli.webhooks:rotate",
        """Give a webhook a new secret, and print it, this one time, alone on stdout.

        For 24 hours messages carry two signatures, so the receiver may change over at any time. Then put the new
        secret into the settings, too.
        """,
        (
            "fleet webhooks rotate tracker --config fleet.yaml",
            "fleet webhooks rotate tracker --redis-url redis://redis",
        ),
    ),
}
"""By the words of the command."""

GROUPS: dict[str, Command] = {
    "": Command(
        "",
        """Coordinate a fleet of AI agents: shared work items, claims and workflows over MCP, kept in Redis.

        Options that say which fleet (--url, --data-dir ...) may precede the command.
        """,
        ("fleet up", "fleet doctor"),
    ),
    "config": Command(
        "",
        "Show settings and where they come from; check a config file.",
        ("fleet config show", "fleet config check config/fleet.yaml"),
    ),
    "token": Command(
        "",
        "Make, list and revoke the bearer tokens of callers.",
        ("fleet token create alice --file tokens.yaml", "fleet token list --file tokens.yaml"),
    ),
    "store": Command(
        "",
        "Accept another store, or an emptied one.",
        ("fleet store accept", "fleet store accept --data-dir ./data"),
    ),
    "cluster": Command(
        "",
        "Show the shards and nodes of the cluster that is the store.",
        ("fleet cluster status", "fleet cluster status --format json"),
    ),
    "project": Command(
        "",
        "List the projects of the store, pause one, copy it to another store, or move it to another shard.",
        ("fleet project list", "fleet project copy web --to redis://backup:6379/3"),
    ),
    "definitions": Command(
        "",
        "Check definitions of workflows.",
        ("fleet definitions check config/workflows", "fleet definitions check ./workflows"),
    ),
    "audit-log": Command(
        "",
        "Show what operators have done.",
        ("fleet audit-log tail", "fleet audit-log tail --follow"),
    ),
    "flows": Command(
        "",
        "Show workflows and their steps; cancel them, or run them again.",
        ("fleet flows list", "fleet flows show 1764131594123"),
    ),
    "gateway": Command(
        "",
        "Check a gateway's file; show its connections, tools and audit; answer approvals.",
        ("fleet gateway check config/gateway.yaml", "fleet gateway approvals list"),
    ),
    "webhooks": Command(
        "",
        "Show, test, pause and resume webhooks; rotate their secrets.",
        ("fleet webhooks list --config fleet.yaml", "fleet webhooks test tracker --config fleet.yaml"),
    ),
    "items": Command(
        "",
        """Work items, over the HTTP endpoint of a fleet: read, add, move and claim them.

        Ids may be cut to their first digits, and '.' stands for the item of FLEET_ITEM_ID. --json prints the
        answers of the tools (`fleet tools items`).
        """,
        ('fleet items add "Design API schema"', "fleet items ready"),
    ),
    "items dep": Command(
        "",
        "Add and delete dependencies between items.",
        ("fleet items dep add 550e8400 6ba7b810", "fleet items dep rm 550e8400 6ba7b810"),
    ),
    "gateway approvals": Command(
        "",
        "List, show and answer approvals.",
        ("fleet gateway approvals list", "fleet gateway approvals resolve hr_4be1f1d7a6c6a2b0 approve"),
    ),
}
"""By the words that commands begin with; a group comes after the group that it is in. The first is ``fleet`` itself."""
