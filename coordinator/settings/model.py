"""Every setting of the coordinator, declared once.

A field's name is its key in the YAML file; its flag is the name with dashes (``--data-dir``), its environment variable
the name in capitals (``FLEET_DATA_DIR``). Everything else about settings (loading, errors, ``config/fleet.yaml``,
``fleet config show``, the flags of commands) is derived from this struct.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from coordinator.settings import example_sections as examples
from coordinator.settings.paths import REDIS_ALLOWED, REDIS_PATTERN
from coordinator.settings.sections.attempts import Attempts
from coordinator.settings.sections.auth import Auth
from coordinator.settings.sections.budgets import Budgets
from coordinator.settings.sections.connections import Connections
from coordinator.settings.sections.console import Console
from coordinator.settings.sections.feed import Feed
from coordinator.settings.sections.flows import Flows
from coordinator.settings.sections.gateway.model import Gateway
from coordinator.settings.sections.identity import ActorAuthentication
from coordinator.settings.sections.overload import Overload
from coordinator.settings.sections.resources import Limits
from coordinator.settings.sections.runners import Runners
from coordinator.settings.sections.steps import StepSettings
from coordinator.settings.sections.tracing import Tracing
from coordinator.settings.sections.webhooks import Webhooks
from coordinator.settings.sections.work import Labels, LegacySchemas, Schemas, TraitNames, Traits
from coordinator.settings.sections.workflows import Signing, Workflows
from coordinator.settings.setting import setting

Name = Annotated[
    str, setting(pattern=r"^[a-z][a-z0-9_-]*\Z", allowed="a name of lower-case letters, digits, '-' and '_'")
]
ProjectName = Annotated[
    str,
    setting(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}\Z",
        allowed="a name of at most 63 lower-case letters, digits, '_' and '-', the first a letter or digit",
    ),
]
HostName = Annotated[
    str,
    setting(
        pattern=r"^(\*|[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(\d{1,5}|\*))?\Z",
        allowed="a host name or address, optionally with ':port'",
    ),
]
Origin = Annotated[
    str,
    setting(
        pattern=r"^[a-z][a-z0-9+.-]*://[^/\s,]+\Z", allowed="an origin such as https://console.example.org (no path)"
    ),
]


TOOLSETS = ("items", "worker", "flows", "sessions", "navigator", "gateway")
"""All toolsets, in the order of ``coordinator.toolsets``."""
APART = ("sessions", "navigator")
"""Toolsets that cannot be served together: they share tool names."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings of a process; made by ``load_settings``."""

    host: Annotated[
        str,
        setting(
            "Address that the front-ends listen on.",
            pattern=r"^[A-Za-z0-9._:-]+\Z",
            group="Processes",
            allowed="a host name or an IP address",
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        setting("TCP port that all front-ends share. 0 takes a free one; the ready line shows which.", ge=0, le=65535),
    ] = 8420
    insecure_no_auth: Annotated[
        bool,
        setting(
            "Allow an address that other machines can reach although auth.mode is not required. Everybody who "
            "reaches the port can then do everything."
        ),
    ] = False
    admin_port: Annotated[
        int,
        setting(
            "A separate port for /metrics and /readyz, which the MCP port then no longer serves. 0: both are on "
            "the MCP port. Neither ever asks for a token.",
            ge=0,
            le=65535,
        ),
    ] = 0
    admin_host: Annotated[
        str,
        setting(
            "Address that admin_port and worker_port are bound on. Empty: the host above.",
            pattern=r"^[A-Za-z0-9._:-]*\Z",
            allowed="empty, a host name or an IP address",
        ),
    ] = ""
    worker_port: Annotated[
        int,
        setting(
            "A port of `fleet worker` for /metrics, /readyz and /healthz, for a host or a pod where no "
            "front-end serves them. Only one of several workers on a host can have it; its /metrics covers all "
            "of them. 0: none. `fleet up` does not use it.",
            ge=0,
            le=65535,
        ),
    ] = 0
    frontends: Annotated[
        int, setting("Front-end processes that answer MCP requests.", ge=1, le=64, unit="processes")
    ] = 2
    workers: Annotated[int, setting("Worker processes that execute workflow steps.", ge=0, le=64, unit="processes")] = 2
    data_dir: Annotated[
        str,
        setting(
            "Directory of the embedded Redis and of run-time files. Empty takes 'fleet-coordinator' under "
            "the user's state directory. A relative path written in a config file starts at that file's "
            "directory, elsewhere at the working directory.",
            allowed="a directory path",
        ),
    ] = ""
    drain_seconds: Annotated[
        int,
        setting(
            "How long a stopping process lets requests in flight finish. Keep it below the grace period of the "
            "service manager.",
            ge=1,
            le=600,
            unit="seconds",
        ),
    ] = 25
    watchdog_seconds: Annotated[
        int,
        setting(
            "How long the event loop of a front-end or worker may be blocked before its supervisor (`fleet "
            "up`, or `fleet serve` with several processes) kills the process as hung and starts another; "
            "also how long the embedded Redis (that of `fleet stdio`, too) may fail to answer (loading its "
            "data counts as an answer). While a process starts, it has at least a minute. 0: never.",
            ge=0,
            le=3600,
            unit="seconds",
        ),
    ] = 30

    redis_url: Annotated[
        str,
        setting(
            "The Redis (7.0 or later) that holds all state. Empty starts an embedded one in data_dir, private "
            "to this machine. redis+sentinel://host1,host2,host3/SERVICE/0 follows the primary that Sentinels "
            "name; redis+cluster://host1,host2,host3 is a cluster, over which projects are spread. The "
            "variable FLEET_REDIS_PASSWORD keeps the password out of the URL. With TLS (rediss), "
            "?ssl_ca_certs=FILE names authorities of your own; ssl_certfile and ssl_keyfile a client's certificate.",
            pattern=REDIS_PATTERN,
            group="Store",
            allowed=REDIS_ALLOWED,
            secret=True,
        ),
    ] = ""
    redis_timeout_ms: Annotated[
        int,
        setting(
            "How long one answer of Redis may take before the connection counts as lost. Must be below "
            "request_deadline_ms, and well below a Sentinel's down-after-milliseconds.",
            ge=10,
            le=60_000,
            unit="milliseconds",
        ),
    ] = 500
    store_id: Annotated[
        str,
        setting(
            "Identity that the store must have, for processes with a temporary data directory; `fleet store "
            "accept` gives it to a new store. Empty: what the data directory remembers.",
            pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,62})?\Z",
            allowed="letters, digits, '.', '_' and '-', at most 63, or empty",
        ),
    ] = ""
    store_accept: Annotated[
        Literal["operator", "auto"],
        setting(
            "Who accepts a store that is not the one that the fleet had, or was flushed: 'operator', by "
            "`fleet store accept` (every call is rejected until then); 'auto', any process, at once."
        ),
    ] = "operator"
    shards: Annotated[
        int,
        setting(
            "Servers of the embedded Redis; with more than one they are a cluster without replicas, to try one "
            "out. Fixed once data_dir is made.",
            ge=1,
            le=8,
            unit="servers",
        ),
    ] = 1
    embedded_fsync: Annotated[
        Literal["always", "everysec"],
        setting(
            "When the embedded Redis flushes its log to disk: 'always' before each answer (nothing that was "
            "acknowledged is lost), 'everysec' once a second (a crash of the machine can lose a second)."
        ),
    ] = "always"
    idempotency_seconds: Annotated[
        int,
        setting(
            "How long the answer to a requestId is kept: a repeated call within this time gets it again.",
            ge=1,
            le=86_400,
            unit="seconds",
        ),
    ] = 600
    events_max: Annotated[
        int,
        setting(
            "Entries kept in each project's event stream; older ones are trimmed, approximately.",
            ge=1_000,
            le=100_000_000,
            unit="entries",
        ),
    ] = 200_000

    toolsets: Annotated[
        tuple[Name, ...],
        setting(
            "Toolsets served together at /mcp. sessions and navigator exclude each other, because they share "
            "tool names. Each toolset is also served alone at /mcp/<toolset>.",
            min_length=1,
            group="MCP endpoint",
        ),
    ] = ("items", "flows")
    projects: Annotated[
        tuple[ProjectName, ...],
        setting(
            "The allowed projects: calls and commands for any other are rejected. Paths without /p/<project> "
            "mean 'default', which has to be listed too if it is used. Empty: any project, created by its "
            "first write.",
            reload=True,
        ),
    ] = ()
    tool_name_style: Annotated[
        Literal["dotted", "underscore"],
        setting(
            "How tool names with a dot are published: 'dotted' as they are, 'underscore' for MCP hosts that "
            "refuse dots."
        ),
    ] = "dotted"
    output_schemas: Annotated[
        Literal["lean", "full", "none"],
        setting(
            "What tools/list says about results: 'lean' their structure, and of large ones only that they are "
            "objects; 'full' everything, for clients that generate code from it; 'none' nothing. Results are the "
            "same. 'full' also describes an argument again where a tool has it twice."
        ),
    ] = "lean"
    allowed_hosts: Annotated[
        tuple[HostName, ...],
        setting("Host headers that are accepted. Empty accepts the loopback names and the bound host."),
    ] = ()
    allowed_origins: Annotated[
        tuple[Origin, ...],
        setting(
            "Origins of pages in browsers that may call this server (CORS), such as the MCP Inspector's. Requests "
            "without an Origin header are always accepted."
        ),
    ] = ()
    request_deadline_ms: Annotated[
        int,
        setting(
            "How long one request may take. Must be above redis_timeout_ms and below drain_seconds.",
            ge=20,
            le=600_000,
            unit="milliseconds",
        ),
    ] = 2_000
    longest_wait_ms: Annotated[
        int,
        setting(
            "Calls that wait are answered after this time at the latest, whatever they ask for: claim_item and "
            "work_next with waitMs, work_done and others with next, reads with waitFor (get_context, "
            "workflow_get, workflow.get, get_workflow_status), workflow.start and workflow.submit, GET /feed; "
            "so are searches through everything. Most clients time out after 60 s.",
            ge=100,
            le=50_000,
            unit="milliseconds",
        ),
    ] = 49_000
    max_body_bytes: Annotated[
        int, setting("Largest request body that is read.", ge=1_024, le=1_073_741_824, unit="bytes")
    ] = 4_194_304
    max_header_bytes: Annotated[
        int, setting("Largest request head that is read.", ge=1_024, le=1_048_576, unit="bytes")
    ] = 16_384
    max_json_depth: Annotated[
        int, setting("Deepest nesting of arrays and objects in a request body.", ge=8, le=512, unit="levels")
    ] = 64

    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        setting("Least important log lines that are written.", group="Logs"),
    ] = "info"
    log_format: Annotated[
        Literal["auto", "console", "json"],
        setting("Shape of log lines on stderr. 'auto' writes for people on a terminal, else JSON."),
    ] = "auto"

    work_item_schemas: Annotated[
        Schemas | None,
        setting(
            "Schemas of work items by name: which notes an item needs in each phase (required ones gate its "
            "transitions), its lifecycle, how many attempts its items may have (max_attempts, else attempts.max), "
            "and the resources that they demand unless they say so themselves. An item takes the schema named by "
            "its type, else by the first of its tags that names one, else the default.",
            group="Work items",
            allowed="a mapping of names to lifecycle, default_traits, max_attempts, resources and notes",
            reload=True,
            example=examples.WORK_ITEM_SCHEMAS,
        ),
    ] = None
    traits: Annotated[
        Traits | None,
        setting(
            "Named sets of further notes that items of any schema can need. A schema lists the traits of all "
            "its items (default_traits); an item can list further ones. If a trait and a schema have a note "
            "with the same key, the schema's counts. The same holds for resources.",
            allowed="a mapping of names to notes and resources",
            reload=True,
            example=examples.TRAITS,
        ),
    ] = None
    default_traits: Annotated[
        TraitNames | None,
        setting(
            "Traits of the items of every schema, after those of the schema itself. Items without a schema need "
            "no notes.",
            allowed="a list of names of traits",
            reload=True,
            example=examples.DEFAULT_TRAITS,
        ),
    ] = None
    default: Annotated[
        str | None,
        setting(
            "The schema of items whose type and tags name none. Without this setting, the schema called "
            "'default' if there is one.",
            allowed="the name of a schema",
            reload=True,
            example=examples.DEFAULT,
        ),
    ] = None
    note_schemas: Annotated[
        LegacySchemas | None,
        setting(
            "The older form of work_item_schemas: names with lists of notes. Ignored if work_item_schemas is present.",
            allowed="a mapping of names to lists of notes",
            reload=True,
            example=examples.NOTE_SCHEMAS,
        ),
    ] = None
    status_labels: Annotated[
        Labels | None,
        setting(
            "Status labels by trigger. They replace all built-in ones, which are shown below: a trigger that is "
            "not listed has no label. 'cascade' is for parents that end with their last child; 'cancel' is "
            "always 'cancelled'.",
            allowed="a mapping of triggers to labels or null",
            reload=True,
            example=examples.STATUS_LABELS,
        ),
    ] = None

    attempts: Attempts = Attempts()
    rank: Annotated[
        Literal["complexity", "due"],
        setting(
            "What comes first among ready items of one priority. complexity: the least complex, then the oldest. "
            "due: those with a dueAt, the one that is due first; then the others as before. A change holds for "
            "items from when they next become ready.",
            reload=True,
        ),
    ] = "complexity"
    resources: Annotated[
        Limits | None,
        setting(
            "How much there is of the resources that work items demand (resources of an item, of its schema or of "
            "its traits), by key: the capacity in units, or capacity and perMinute, the units that come back each "
            "minute to be taken by claims. As many as the capacity can be saved, and are there at first: in any "
            "minute, the first one too, claims take up to perMinute + capacity. Of other keys there is 1. Keys are "
            "paths: what is taken of a key also counts against each of its ancestors that is listed here.",
            allowed="a mapping of keys to a number of units, or to capacity and perMinute",
            reload=True,
            example=examples.RESOURCES,
        ),
    ] = None
    budgets: Annotated[
        Budgets | None,
        setting(
            "How much may be used, as agents report it, until further claims are refused with the outcome "
            "'budget_exhausted' and renewals say stop. agents: by their ids, or beginnings of ids with '*'; each "
            "of these agents has the budget, each slot (ID/SUFFIX) too, the longest beginning counts. projects: by "
            "name. day (in UTC) and total: costMicroUsd (millionths of a US dollar), tokens (input and output), "
            "wallMs. Items have budgets of their own.",
            allowed="agents and projects, each a mapping of names to day and total",
            reload=True,
            example=examples.BUDGETS,
        ),
    ] = None

    actor_authentication: ActorAuthentication = ActorAuthentication()
    auth: Auth = Auth()

    steps: StepSettings = StepSettings()
    flows: Flows = Flows()
    connections: Annotated[
        Connections | None,
        setting(
            "Servers and programs that workflow steps can use, by name. mcp: a server on stdin and stdout "
            "(command, args, env, workingDirectory) or over Streamable HTTP (url, headers), whose tools steps "
            "call as <connection>.<tool>; startSeconds bounds connecting. state is for servers that remember "
            "something from call to call: with none (the default) each worker calls a server of its own, which is "
            "right for those that remember nothing; with session each workflow or caller has a server (over HTTP "
            "a session) to itself, which a browser, a shell or a notebook needs; with shared all of a project use "
            "one. A state ends after stateIdleSeconds (900) without a call, or where stateMost (16, in the whole "
            "fleet) are there and another is wanted; its calls are made one after the other unless stateParallel "
            "is true. cli (command, workingDirectory, env) "
            "and rest (baseUrl, headers) are for the gateway. ${NAME} stands for an environment variable. A "
            "relative workingDirectory starts at this file's directory, a relative command at the "
            "workingDirectory. On SIGHUP, calls under way end as they began, and variables keep their values.",
            allowed="a mapping of names to kind and its fields",
            reload=True,
            example=examples.CONNECTIONS,
        ),
    ] = None

    overload: Overload = Overload()
    feed: Feed = Feed()
    console: Console = Console()
    webhooks: Annotated[
        Webhooks | None,
        setting(
            "Receivers of the change feed, by name: each gets the events of its project in order, signed by "
            "Standard Webhooks. url: https only, and public addresses only unless allow_private is true; project: "
            "by default 'default'; secret (whsec_ and base64), or secret_env, the variable that holds it; kinds "
            "and root: as listeners of the feed filter. `fleet webhooks` shows, tests, pauses and resumes them, "
            "and rotates secrets.",
            allowed="a mapping of names to url, project, secret or secret_env, kinds, root and allow_private",
            reload=True,
            example=examples.WEBHOOKS,
        ),
    ] = None
    runners: Annotated[
        Runners | None,
        setting(
            "Runners of agents, by name: `fleet run --runner NAME` takes its flags from here, with '_' for '-', "
            "and the command as a list; flags that are given win. Nothing else reads this.",
            allowed="a mapping of names to command and flags of `fleet run`",
            example=examples.RUNNERS,
        ),
    ] = None
    tracing: Tracing = Tracing()
    gateway: Annotated[
        Gateway | None,
        setting(
            "The gateway: capabilities, workflows and downstream tools that agents find and use through seven "
            "tools at /mcp/gateway. May be put together from several files (include). `fleet gateway check "
            "FILE` lists its mistakes; config/gateway.yaml is an example.",
            allowed="a mapping with version, include, capabilities, connections, proxy, workflows, audit, "
            "discovery and limits",
            group="Gateway",
            reload=True,
            example=examples.GATEWAY,
        ),
    ] = None

    workflows: Workflows = Workflows()
    signing: Signing = Signing()
