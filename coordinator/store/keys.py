"""Every key name of the product, made here and nowhere else.

A project's keys carry the hash tag ``{project}``, so one script touches one slot and a
cluster shards by project. Fleet-wide keys carry the tag ``{!fleet}``, which cannot be a project's name. A key is
``fc:{tag}:suffix`` or ``fc:{tag}:suffix:id``. Each suffix is declared once below as a ``Family``, with its Redis type
and either the time to live of its keys or the reason why they have none. Scripts use the same declarations: in Lua,
``run.keys.item`` is ``fc:{project}:i:`` (``libraries/build.py``). The tests check every
key that they leave against ``declared``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from coordinator.errors import invalid

RedisType = Literal["string", "hash", "list", "set", "zset", "stream"]
Scope = Literal["project", "fleet", "queue"]

FLEET = "!fleet"
"""Stands for the fleet-wide partition wherever a project name is taken."""

QUEUE = "RQ"
"""Stands for the partition of RQ's queues, whose keys RQ names, wherever a project name is taken."""

DEFAULT_PROJECT = "default"
"""The project of calls that name none."""

PROJECT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
PROJECT_RULE = "1 to 63 lower-case letters, digits, '_' or '-', beginning with a letter or digit"
"""What ``PROJECT`` matches, in words."""
_PARTITIONS = {FLEET: b"fc:{!fleet}:", QUEUE: b"fc:{RQ}:"}
_SUFFIX = re.compile(r"[a-z][a-z0-9_]*")
_KEY = re.compile(rb"fc:\{([^{}]+)\}:([a-z][a-z0-9_]*)(:.*)?", re.DOTALL)


class Family:
    """The keys of one kind. Its name is that of the module variable that holds it.

    Args:
        suffix: what follows the tag; lower case, unique within the scope.
        type: the Redis type of every key of the family.
        ttl: the time to live that every key has, or the setting that it comes from ("idempotency_seconds").
        reason: why the keys have no time to live. Exactly one of ``ttl`` and ``reason`` is given.
        single: True for one key per partition (``fc:{p}:ready``), False for one per id
            (``fc:{p}:i:<id>``).
        scope: whether projects have these keys or the fleet as a whole.
        doc: what the key holds.
    """

    __slots__ = ("doc", "name", "reason", "scope", "single", "suffix", "ttl", "type")

    def __init__(
        self,
        suffix: str,
        type: RedisType,
        *,
        ttl: str | None = None,
        reason: str | None = None,
        single: bool = False,
        scope: Scope = "project",
        doc: str,
    ) -> None:
        if not _SUFFIX.fullmatch(suffix):
            raise ValueError(f"suffix {suffix!r}: lower-case letters, digits and _ only, a letter first")
        if (ttl is None) == (reason is None):
            raise ValueError(f"family {suffix!r}: give either a ttl or the reason why it has none")
        self.name = ""
        self.suffix = suffix
        self.type: RedisType = type
        self.ttl = ttl
        self.reason = reason
        self.single = single
        self.scope: Scope = scope
        self.doc = doc

    def key(self, project: str, *ids: str) -> bytes:
        """One key of the family: ``item.key("default", item_id)``, ``ready.key("default")``.

        Raises:
            ToolFailure: VALIDATION_ERROR for a bad project name.
            ValueError: an id is missing or not expected, or ``project`` is of the other scope.
        """
        if (project == FLEET) != (self.scope == "fleet"):
            raise ValueError(f"family {self.name}: belongs to the scope {self.scope}")
        if self.single == bool(ids):
            raise ValueError(f"family {self.name}: takes {'no id' if self.single else 'an id'}")
        return prefix(project) + ":".join((self.suffix, *ids)).encode()

    @property
    def lua_suffix(self) -> str:
        """What follows the partition's prefix in Lua; an id follows it unless there is but one key."""
        return self.suffix if self.single else f"{self.suffix}:"

    def __repr__(self) -> str:
        return f"Family({self.name or self.suffix})"


def check_project(name: str) -> str:
    """Returns ``name`` if it can name a project.

    Raises:
        ToolFailure: VALIDATION_ERROR with what is allowed.
    """
    if not PROJECT.fullmatch(name):
        raise invalid("project", f"must be {PROJECT_RULE}")
    return name


def project_prefix(project: str) -> bytes:
    """``fc:{project}:``, where every key of the project begins. Raises as ``check_project``."""
    return b"fc:{%s}:" % check_project(project).encode()


def prefix(project: str) -> bytes:
    """The prefix of a project, or of a partition for ``FLEET`` and ``QUEUE``. Raises as ``check_project``."""
    return _PARTITIONS.get(project) or project_prefix(project)


def scope_of(project: str) -> Scope:
    """The scope of scripts that run on a partition."""
    return "fleet" if project == FLEET else "queue" if project == QUEUE else "project"


FENCE_ID = 16
"""How many characters the id of a copy has, with which the value of ``fence`` begins."""

MOST_ANSWERED = 1_000
"""Answers of people that are kept in a project, of each kind (``lua/records/answered.lua``)."""

# --- the families -----------------------------------------------------------------------------

item = Family("i", "hash", reason="a work item lives until it is deleted", doc="the short fields of a work item")
text = Family("l", "hash", reason="goes with its item", doc="an item's long texts: over 64 bytes, and always "
              "description, metadata and properties")  # fmt: skip
ranked = Family("x", "zset", reason="empties with its items",
                doc="items of one scope by score: a parent's children, all children, a tag, a type")  # fmt: skip
beneath = Family("xb", "zset", reason="empties with its items",
                 doc="items by a bound on the best ready item below each, per role and priority")  # fmt: skip
prefixes = Family("u", "zset", reason="empties with its items", doc="ids by their first four hex digits, in order")
edges = Family("e", "hash", reason="goes with its item", doc="an item's dependency edges, each held at both ends")
dependency = Family("d", "string", reason="lives until the edge is deleted", doc="the two ends of a dependency id")
owed = Family("ow", "list", single=True, reason="empties as the debt is settled, by the call that left it",
              doc="what a script left to do in slices: counts of blockers, notes, items to be offered")  # fmt: skip
leases = Family("ls", "zset", single=True, reason="empties as claims end", doc="agents by their claims' expiry")
agents = Family("ag", "hash", single=True, reason="an entry goes with its claim, or a day after the agent was seen",
                doc="the item that each agent holds, and what is known of each agent")  # fmt: skip
agent_seen = Family("as", "zset", single=True, reason="at most 10000; an entry goes a day after its agent was seen",
                    doc="agents by when they were last seen")  # fmt: skip
agent_attempts = Family("aa", "hash", single=True, reason="an entry goes with that of agent_seen",
                        doc="attempts by agent: claims that ended in work or review without an effect")  # fmt: skip
paused = Family("pz", "hash", single=True, reason="until an operator resumes the project", doc="what is paused")
agent_drains = Family("ad", "hash", single=True, reason="until an operator ends them; at most 1000",
                      doc="agents that are being drained, and since when")  # fmt: skip
requirements = Family("rs", "hash", single=True, reason="an entry goes with its last item; at most 500",
                      doc="how many items require each set of capabilities")  # fmt: skip
apart = Family("sa", "zset", single=True, reason="an entry goes with its last item; about 500",
               doc="sets of ready items that are not for everybody, by their best items")  # fmt: skip
demands = Family("rd", "hash", single=True, reason="an entry goes with its last open item",
                 doc="how many open items demand each resource, or one below it")  # fmt: skip
resources = Family("rc", "hash", single=True, reason="an entry goes when nothing is held; one per limit per minute",
                   doc="what claims hold of each resource, and what is left of its units per minute")  # fmt: skip
passed_over = Family("po", "zset", single=True, reason="an entry goes with its item, or a day after it",
                     doc="items and sets that callers pass over for want of resources, by since when")  # fmt: skip
reserved = Family("rv", "hash", single=True, reason="at most 32", doc="what is reserved for items passed over")
usage = Family("us", "hash", single=True, reason="at most 20000 entries",
               doc="sums of usage: of the project, of days, models and agents")  # fmt: skip
usage_ranked = Family("ur", "zset", single=True, reason="at most 1000 entries",
                      doc="the items with the most usage, with what is below them")  # fmt: skip
spent_budgets = Family("sb", "set", single=True, reason="an entry goes when its budget is raised, or its item ends",
                       doc="open items whose budget is spent")  # fmt: skip
spent_ended = Family("se", "string", single=True, reason="one counter", doc="how many ended items have spent theirs")
holds = Family("hd", "hash", single=True, reason="counters of bounded number",
               doc="how long claims were held that ended since the last count, by outcome and bucket")  # fmt: skip
samples = Family("sm", "list", ttl="an hour or a day after the last change",
                 doc="samples of items: a row per 10 s of the last hour, one per 60 s of the last day")  # fmt: skip
lapsed = Family("lp", "hash", single=True, reason="counters of bounded number",
                doc="expired claims that are still on their items, counted per scope")  # fmt: skip
abandoned = Family("ab", "zset", single=True, reason="an entry goes when its item is claimed or done",
                   doc="abandoned items by when they were abandoned, blocked ones last")  # fmt: skip
retries = Family("rt", "zset", single=True, reason="empties as their times come",
                 doc="items that are held back until a time, by that")  # fmt: skip
backoffs = Family("rb", "zset", single=True, reason="empties as back-offs end",
                  doc="items in back-off after a failed attempt, by when it ends")  # fmt: skip
postponed = Family("pp", "zset", single=True, reason="empties as their times come",
                   doc="items that are not to be ready before a time, by that")  # fmt: skip
due = Family("du", "zset", single=True, reason="an entry goes when its item is done or deleted",
             doc="open items by when they are due")  # fmt: skip
recurring = Family("rg", "zset", single=True, reason="an entry goes when its template is ended or deleted",
                   doc="templates of recurring items, by when to look at them next")  # fmt: skip
occurrences = Family("oc", "hash", single=True, reason="an entry goes with the last open occurrence",
                     doc="how many occurrences of each template are open")  # fmt: skip
quarantined = Family("qz", "zset", single=True, reason="an entry goes when its item is resumed, ended or deleted",
                     doc="quarantined items by since when")  # fmt: skip
questions = Family("qs", "zset", single=True, reason="at most 10000; an entry goes some time after its question",
                   doc="items that agents have blocked with a question, by when")  # fmt: skip
notes = Family("n", "hash", reason="goes with its item", doc="an item's notes by key: id, role, whether filled")
note = Family("o", "hash", reason="lives until it is deleted", doc="one note")
schemas = Family("cf", "hash", ttl="config_days", doc="a version of the note schemas, by its hash")
request = Family("q", "string", ttl="idempotency_seconds", doc="the fingerprint and reply of a request id")
events = Family("ev", "stream", single=True, reason="capped at events_max", doc="every change, for feeds and proofs")
transitions = Family("tr", "stream", single=True, reason="capped at events_max",
                     doc="role changes with actor, verification and summary")  # fmt: skip
waiting = Family("wg", "zset", single=True, ttl="waitMs and 10 s", doc="queues of parked claims by last deadline")
told = Family("tl", "string", ttl="1 s", doc="what an agent that got nothing was told of what is held back")
wanted = Family("ws", "hash", ttl="waitMs and 10 s", doc="selectors that lead from a scope and class to their queues")
queue = Family("wq", "zset", ttl="waitMs and 10 s", doc="parked claims of one selector in order of arrival")
arrivals = Family("wn", "string", single=True, reason="one counter", doc="numbers parked claims in order of arrival")
waiter = Family("wt", "hash", ttl="waitMs and 10 s", doc="a parked claim, by its request")
alive = Family("wp", "string", ttl="10 s, renewed while calls are parked", doc="a process that holds parked claims")
probe = Family("pb", "string", single=True, reason="never there", doc="the same as fleet_probe, where that has no keys")
session = Family("sn", "hash", ttl="workflows.session_days", doc="a workflow session: position, pending checkpoint")
session_trace = Family("snt", "list", ttl="workflows.session_days", doc="a session's trace events in order")
session_answers = Family("sna", "hash", ttl="workflows.session_days", doc="a session's answered checkpoints")
session_item = Family("sni", "hash", ttl="workflows.session_days", doc="the sessions bound to a work item, by workflow")
session_index = Family("snx", "zset", single=True, reason="an entry goes with its session",
                       doc="sessions by when they last changed; apart, those with an open checkpoint")  # fmt: skip
run = Family("sr", "hash", reason="goes when its retention is over", doc="a run of steps: name, status, counters")
run_spec = Family("sp", "string", reason="goes with its run", doc="what a run was created with; never changes")
history = Family("sh", "list", reason="goes with its run", doc="the finished steps of a run, in order of their end")
results = Family(
    "so", "hash", reason="goes with its run", doc="long results of a run's finished steps, by their numbers"
)
step = Family("st", "hash", reason="goes when its outcome is recorded", doc="a step that is not finished")
step_ids = Family("si", "string", single=True, reason="one counter", doc="the last id of a run or step so far")
step_leases = Family("sl", "zset", single=True, reason="empties as steps finish", doc="steps that run, by end of lease")
step_queue = Family("sq", "zset", single=True, reason="empties as steps begin",
                    doc="steps that wait for a worker, by when their job was last checked")  # fmt: skip
step_timers = Family("sd", "zset", single=True, reason="empties as they fire", doc="delayed steps and expiring gates")
step_backlog = Family("sw", "zset", single=True, reason="empties as steps finish",
                      doc="steps over the project's limit, by priority and age")  # fmt: skip
step_suspects = Family("su", "hash", single=True, ttl="a day after the last of them began",
                       doc="by worker, the suspect that it runs: a step one crash short of poisoned")  # fmt: skip
step_gates = Family("sg", "zset", single=True, reason="empties as they are released, expire or are cancelled",
                    doc="gates of flows that wait for their release, by since when")  # fmt: skip
step_addressed = Family("sx", "zset", single=True, reason="an entry goes some seconds after it was made",
                        doc="steps given back for one worker, by when they go back to their pool")  # fmt: skip
state_seen = Family("sc", "hash", ttl="30 days after the last call",
                    doc="by connection, the number of the state that a caller used last")  # fmt: skip
outbox = Family("ob", "list", single=True, reason="emptied by the relay", doc="jobs for a queue in another Redis")
flows = Family("fx", "zset", reason="empties with its flows", doc="flows of one status by id")
owned = Family("fo", "zset", reason="empties with its flows", doc="flows of one creator by id")
ended = Family("fe", "zset", single=True, reason="empties with its flows", doc="finished flows by when they finished")
knowledge = Family("kn", "hash", single=True, reason="at most 1000 short texts", doc="what demo tools keep")
counted = Family("kc", "string", single=True, reason="one counter", doc="the demo tools' counter")
counts = Family("kd", "string", ttl="a day", doc="what the demo tools' counter gave to a step")
gate_data = Family("gd", "hash", reason="goes with its instance",
                   doc="a gateway instance's context, input, evidence by kind, approvals, last failure")  # fmt: skip
gate_evidence = Family("gv", "list", reason="goes with its instance", doc="evidence of a gateway instance in order")
gate_result = Family("gf", "string", reason="goes with its instance",
                     doc="a value that is too large for a gateway instance's context, whole")  # fmt: skip
gate_ending = Family("go", "string", ttl="idempotency_seconds", doc="how an operation on a gateway instance ended")
gate_waiters = Family("gw", "set", ttl="120 s", doc="processes that wait for an operation on a gateway instance")
gate_bundle = Family("gb", "string", reason="goes with the last instance that has it",
                     doc="definitions as gateway instances started with them, by a hash of their content")  # fmt: skip
gate_bundles = Family("gn", "hash", single=True, reason="an entry goes with its bundle", doc="instances per bundle")
gate_expiry = Family("gx", "zset", single=True, reason="empties as they are forgotten",
                     doc="gateway instances that have ended, and sessions, by when to forget them")  # fmt: skip
gate_approval = Family("ga", "hash", reason="goes with its instance", doc="an approval that people are asked for")
gate_asked = Family("gq", "zset", single=True, reason="empties as they are answered",
                    doc="approvals that are not answered yet, by when they were asked for")  # fmt: skip
gate_answered = Family("gr", "zset", single=True, reason="an entry goes with its instance",
                       doc="approvals that were answered or withdrawn, by when")  # fmt: skip
gate_index = Family("gz", "zset", single=True, reason="an entry goes with its instance",
                    doc="gateway instances by when they last changed")  # fmt: skip
project_keys = Family("pk", "hash", single=True, reason="as long as the project",
                      doc="of a project that was moved or accepted here: the salt of its signing keys, and those of "
                      "the stores that it comes from")  # fmt: skip
marker = Family("mk", "string", single=True, reason="as long as the project",
                doc="in a cluster: the identity of the store that the project belongs to")  # fmt: skip
fence = Family("cy", "string", single=True, reason="until the copy is complete; where the project has left, for good",
               doc="what refuses the project: its copy by its id and how far (``fences/known.py``)")  # fmt: skip
gate_audit = Family("gl", "stream", single=True, reason="capped at events_max", doc="the gateway's audit")
gate_copied = Family("gp", "string", single=True, reason="one position", doc="how far the audit was copied to a file")
step_projects = Family("sp", "zset", single=True, scope="fleet", reason="idle ones are dropped",
                       doc="projects with steps by when they were last active, in s")  # fmt: skip
state_owners = Family("to", "hash", scope="fleet", ttl="a minute, renewed",
                      doc="of one connection: number and worker of each state that its servers keep")  # fmt: skip
state_uses = Family("tu", "zset", scope="fleet", ttl="a minute, renewed",
                    doc="the same states by when their last call ended, later than now while there is one")  # fmt: skip
state_leases = Family("tl", "zset", single=True, scope="fleet", ttl="a minute, renewed",
                      doc="workers that have such states, by the end of their lease")  # fmt: skip
state_number = Family("tn", "string", single=True, scope="fleet", reason="one number", doc="the last state's number")
relay_wakeups = Family("ob", "list", single=True, scope="fleet", reason="at most 100 entries",
                       doc="projects whose outbox has something new")  # fmt: skip
gate_servers = Family("gi", "hash", single=True, scope="fleet", reason="an entry per connection",
                      doc="the tools of downstream servers that the gateway imports from")  # fmt: skip
gate_server_times = Family("gj", "hash", single=True, scope="fleet", reason="an entry per connection",
                           doc="when they were asked for these tools, in ms")  # fmt: skip
leader_lease = Family("gt", "string", scope="fleet", ttl="a minute at most, renewed",
                      doc="the process that runs a fleet-wide task: listing tools, copying the audit, ...")  # fmt: skip
item_projects = Family("ip", "zset", single=True, scope="fleet", reason="empty ones are dropped",
                       doc="projects with work items by when they were last changed, in s")  # fmt: skip
due_projects = Family("du", "zset", single=True, scope="fleet", reason="an entry goes when nothing in its project ends",
                      doc="projects by when the next claim or back-off in each ends")  # fmt: skip
answered = Family("an", "stream", reason=f"capped at {MOST_ANSWERED} of each kind",
                  doc="what people were asked and have answered, by kind: gates, checkpoints, questions")  # fmt: skip
known_projects = Family("kp", "zset", single=True, scope="fleet", reason="at most 10000 entries",
                        doc="projects that somebody has written to, by when a process saw that, in s")  # fmt: skip
signing_keys = Family("sk", "hash", single=True, scope="fleet", reason="a few; new ones replace old ones",
                      doc="the keys that tokens are signed with, by id")  # fmt: skip
webhook = Family("wh", "hash", scope="fleet", ttl="30 days after it was last used",
                 doc="a webhook: its position in the feed, how deliveries go, rotated secrets, sealed")  # fmt: skip

key_copy = Family("jk", "hash", scope="fleet", ttl="30 days", doc="the last good keys of a source of public keys")
key_fetch_lease = Family("jt", "string", scope="fleet", ttl="the cooldown of a source",
                         doc="a process fetches, or has fetched, from a source of public keys")  # fmt: skip
identity_mode = Family("im", "hash", single=True, scope="fleet", reason="one record",
                       doc="the degraded-mode policy and the verifier that the fleet applies")  # fmt: skip
fleet_probe = Family("pb", "string", single=True, scope="fleet", reason="never there",
                     doc="what is deleted to find out whether the server takes writes")  # fmt: skip
drains = Family("dr", "hash", single=True, scope="fleet", reason="until an operator ends them",
                doc="what is being drained, and since when")  # fmt: skip
processes = Family("pr", "zset", single=True, scope="fleet", reason="stale entries are dropped",
                   doc="processes, as host/slot, by when they last reported, in s")  # fmt: skip
process_status = Family(
    "ps", "string", scope="fleet", ttl="15 s, renewed", doc="what a process reports of itself, as JSON"
)
spent = Family("ot", "string", scope="fleet", ttl="a minute after what was spent has ended",
               doc="a ticket or state of a sign-in that was used, so that it cannot be used again")  # fmt: skip
identity = Family("id", "hash", single=True, scope="fleet", reason="one record",
                  doc="the store's identity, those that it replaces; the number of changes of fenced_projects and the "
                  "generation of functions that look for fences; which other Redis has the queues")  # fmt: skip
moment = Family("mo", "string", single=True, scope="fleet", reason="one number",
                doc="the latest time of the server, in ms, that a process has noted")  # fmt: skip
marked_projects = Family("mp", "set", single=True, scope="fleet", reason="one entry per project of a cluster",
                         doc="projects of a cluster that have a marker, so that its loss is noticed")  # fmt: skip
fenced_projects = Family("fn", "hash", single=True, scope="fleet", reason="one entry per project copied",
                         doc="projects that are fenced, with what operators want to know")  # fmt: skip
key_space = Family("v", "string", single=True, scope="fleet", reason="one number", doc="which layout the keys have")
fleet_events = Family("ev", "stream", single=True, scope="fleet", reason="capped at 10000 entries",
                      doc="what happened to the fleet as a whole")  # fmt: skip

# --- end of the families ----------------------------------------------------------------------


def index(named: Iterable[tuple[str, object]]) -> dict[Scope, dict[str, Family]]:
    """Names the families among ``named`` and sorts them: scope, then suffix.

    Raises:
        ValueError: two families share a suffix.
    """
    found: dict[Scope, dict[str, Family]] = {"project": {}, "fleet": {}}
    for name, family in named:
        if isinstance(family, Family):
            if found[family.scope].setdefault(family.suffix, family) is not family:
                raise ValueError(f"families {found[family.scope][family.suffix].name} and {name} share a suffix")
            family.name = name
    return found


FAMILIES = index(list(globals().items()))
"""Every declared family: scope, then suffix."""


def declared(key: bytes) -> Family | None:
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    tag, suffix, rest = match.groups()
    family = FAMILIES["fleet" if tag == FLEET.encode() else "project"].get(suffix.decode())
    return family if family is not None and family.single == (rest is None) else None
