"""``Recorder``: the rest of the product calls its methods when something happens.

Cells are made once per combination of labels; then a call costs a look-up and one or two additions in shared memory.
"""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, cast

from coordinator.metrics import agents, attempts, catalogue, console, feed, identity, runs, webhooks
from coordinator.metrics.cells import Buckets, Cell, Cells, MemoryCells
from coordinator.metrics.downstream import DownstreamRecorder
from coordinator.metrics.due_times import TimesRecorder
from coordinator.metrics.fleet import FleetRecorder
from coordinator.metrics.gateway import GatewayRecorder
from coordinator.metrics.protocol import ProtocolRecorder
from coordinator.metrics.recording import Family, Recording, install, recording, set_all, start
from coordinator.metrics.resources import ResourceRecorder
from coordinator.metrics.shards import ShardRecorder
from coordinator.metrics.states import StateRecorder
from coordinator.metrics.usage import UsageRecorder

_ANSWERS = dict.fromkeys(("ok", "new", "replay", "stopped"), "ok") | dict.fromkeys(("refused", "mismatch"), "refused")
"""Outcome of a script -> how it is counted, if not as an error."""
_WITH_ID = frozenset({"new", "replay", "mismatch"})


class Recorder(Recording):
    """Records the metrics of one process.

    Args:
        cells: where the numbers are kept.
        slot: the process's stable name on its host.
    """

    def __init__(self, cells: Cells, slot: str = "local") -> None:
        super().__init__(cells, slot)
        self._requests = self.of(catalogue.REQUESTS)
        self._durations = self.of(catalogue.REQUEST_DURATION)
        self._slot_requests = self.of(catalogue.SLOT_REQUESTS)
        self._fast_path = self.of(catalogue.FAST_PATH)
        self._auth_refused = self.of(catalogue.AUTH_REFUSED)
        self._token_file_reads = self.of(catalogue.TOKEN_FILE_READS)
        self._inflight = self.of(catalogue.INFLIGHT)
        self._connections = self.of(catalogue.CONNECTIONS)
        self._store_changed = self.of(catalogue.STORE_CHANGED)
        self._store_went_back = self.of(catalogue.STORE_WENT_BACK)
        self._claims = self.of(catalogue.CLAIMS)
        self._conflicts = self.of(catalogue.CLAIM_CONFLICTS)
        self._holds = self.of(catalogue.CLAIM_HOLD)
        self._losers = self.of(catalogue.CLAIM_LOSERS)
        self._items = self.of(catalogue.ITEMS)
        self._oldest_ready = self.of(catalogue.OLDEST_READY)
        self._abandoned = self.of(catalogue.ABANDONED)
        self._oldest_abandoned = self.of(catalogue.OLDEST_ABANDONED)
        self._attempts = self.of(attempts.ATTEMPTS)
        self._quarantines = self.of(attempts.QUARANTINES)
        self._quarantined = self.of(attempts.QUARANTINED)
        self._in_backoff = self.of(attempts.IN_BACKOFF)
        self.times = TimesRecorder(self)
        self.resources = ResourceRecorder(self)
        self.used = UsageRecorder(self)
        self.shards = ShardRecorder(self)
        self.downstream = DownstreamRecorder(self)
        self.states = StateRecorder(self, slot)
        self._agents_known = self.of(agents.KNOWN)
        self._agent_drains = self.of(agents.DRAINS)
        self._agents_waiting = self.of(catalogue.AGENTS_WAITING)
        self._claim_waits = self.of(catalogue.CLAIM_WAIT)
        self._feed_listeners = self.of(feed.LISTENERS)
        self._feed_deliveries = self.of(feed.DELIVERIES)
        self._feed_cut = self.of(feed.CUT)
        self._feed_gaps = self.of(feed.GAPS)
        self._feed_lag = self.of(feed.LAG)
        self._subscriptions = self.of(feed.SUBSCRIPTIONS)
        self._subscription_told = self.of(feed.TOLD)
        self._reads_waiting = self.of(feed.READS_WAITING)
        self._wait_reads = self.of(feed.WAIT_READS)
        self._waits_ended = self.of(feed.WAITS_ENDED)
        self.console = console.Recorder(self, slot)
        self._webhook_attempts = self.of(webhooks.ATTEMPTS)
        self._webhook_durations = self.of(webhooks.DURATION)
        self._webhook_states = self.of(webhooks.STATES)
        self._webhook_lags = self.of(webhooks.LAG)
        self._webhook_gaps = self.of(webhooks.GAPS)
        self._run_attempts = self.of(runs.ATTEMPTS)
        self._run_durations = self.of(runs.DURATION)
        self._run_cost = self.of(runs.COST)
        self._run_refused = self.of(runs.USAGE_REFUSED)
        self._run_running = self.of(runs.RUNNING)
        self._runs_paused = self.of(runs.PAUSED)
        self.fleet = FleetRecorder(self)
        self.gateway = GatewayRecorder(self)
        self.protocol = ProtocolRecorder(self)
        self._idempotency = self.of(catalogue.IDEMPOTENCY)
        self._checkpoints = self.of(catalogue.CHECKPOINTS)
        self._session_tokens = self.of(catalogue.SESSION_TOKENS_REFUSED)
        self._scripts = self.of(catalogue.SCRIPT_DURATION)
        self._script_failures = self.of(catalogue.SCRIPT_FAILURES)
        self._restarted = self.of(catalogue.RESTARTS_OF_OPERATIONS)
        self._store_errors = self.of(catalogue.STORE_ERRORS)
        self._jobs = self.of(catalogue.WORKER_JOBS)
        self._steps = self.of(catalogue.STEPS)
        self._step_durations = self.of(catalogue.STEP_DURATION)
        self._step_waits = self.of(catalogue.STEP_WAIT)
        self._steps_running = self.of(catalogue.STEPS_RUNNING)
        self._reports_refused = self.of(catalogue.STEP_REPORTS_REFUSED)
        self._leases_lost = self.of(catalogue.STEP_LEASES_LOST)
        self._jobs_restored = self.of(catalogue.STEP_JOBS_RESTORED)
        self._steps_queued = self.of(catalogue.STEPS_QUEUED)
        self._runs_ended = self.of(catalogue.RUNS_ENDED)
        self._gateway_submits = self.of(catalogue.GATEWAY_SUBMITS)
        self._gateway_executors = self.of(catalogue.GATEWAY_EXECUTORS)
        self._loop_lag = self.of(catalogue.LOOP_LAG)
        self._processes = self.of(catalogue.PROCESSES)
        self._restarts = self.of(catalogue.RESTARTS)
        self._cpu = self.of(catalogue.CPU)
        self._memory = self.of(catalogue.MEMORY)
        self._config_info = self.of(catalogue.CONFIG_INFO)
        self._reloads = self.of(catalogue.CONFIG_RELOADS)
        self._verifications = self.of(identity.VERIFICATIONS)
        self._trust = self.of(identity.TRUST)
        self._signatures = self.of(identity.SIGNATURE_SECONDS)
        self._key_fetches = self.of(identity.KEY_FETCHES)
        self._key_age = self.of(identity.KEY_AGE)
        self._identity_state = self.of(identity.STATE)
        self._identity_policy = self.of(identity.POLICY)
        # The cells that change with each call, grouped: one look-up instead of one per metric.
        self._answered: dict[tuple[str, str, str], tuple[Cell, Buckets, Cell]] = {}
        self._ran: dict[tuple[str, str], tuple[Buckets, tuple[Cell, ...]]] = {}
        self._judged: dict[tuple[str, str, str], tuple[Cell, Cell]] = {}
        self.version = ""
        self._config: Cell | None = None

    def families(self) -> dict[str, Family[Any]]:
        """The cells by the name of their metric: what this process alone has recorded."""
        return {metric.name: family for metric, family in self._families.items()}

    def start_frontend(self, tools: Iterable[str], scripts: Iterable[str]) -> None:
        """Starts the counters of a front-end at zero. From now on, other tools and scripts count as ``other``."""
        names = sorted(set(tools))
        self._requests.only_allow(0, names)
        self._durations.only_allow(0, names)
        known = sorted(set(scripts))
        self._scripts.only_allow(0, known)
        self._script_failures.only_allow(0, known)
        for family in (
            self._requests,
            self._fast_path,
            self._auth_refused,
            self._token_file_reads,
            self._claims,
            self._conflicts,
            self._idempotency,
            self._checkpoints,
            self._session_tokens,
            self._script_failures,
            self._restarted,
            self._store_errors,
            self._reloads,
            self._verifications,
            self._trust,
            self._key_fetches,
            self._gateway_submits,
            self._feed_deliveries,
            self._feed_cut,
            self._feed_gaps,
            self._feed_lag,
            self._subscription_told,
            self._wait_reads,
            self._waits_ended,
            self._webhook_gaps,
            self._quarantines,
            self._signatures,
            self.times.made,
        ):
            family.start_at_zero()
        self._holds.start_at_zero()
        self._losers.start_at_zero()
        self._claim_waits.start_at_zero()
        self.console.start()
        self.agents_waiting(0)
        self.feed_listeners(0)
        self.subscriptions(0)
        self.reads_waiting(0)
        start("frontend")

    def start_worker(self) -> None:
        """Starts the counters of a worker at zero."""
        counters = self._jobs, self._steps, self._reports_refused, self._leases_lost, self._jobs_restored
        for family in (*counters, self.gateway.copies):
            family.start_at_zero()
        self.states.start()
        start("worker")

    def start_runner(self) -> None:
        """Starts the counters of a runner at zero."""
        for family in (self._run_attempts, self._run_cost, self._run_refused, self._run_running, self._runs_paused):
            family.start_at_zero()
        self._run_durations.start_at_zero()
        start("runner")

    def start_supervisor(self, roles: Iterable[str]) -> None:
        """Starts at zero the counters of a supervisor of processes in these roles."""
        for role in roles:
            for cause in ("exit", "hung", "signal"):
                self._restarts(role, cause)

    def request(self, tool: str, outcome: str, transport: str, seconds: float | None) -> None:
        """A tool call was answered.

        Args:
            seconds: how long it took; None: it was shed before it began, so it has no duration.
        """
        try:
            requests, durations, of_slot = self._answered[tool, outcome, transport]
        except KeyError:
            requests, durations, of_slot = self._bind_request(tool, outcome, transport)
        requests.value += 1.0
        if seconds is not None:
            durations.observe(seconds)
        of_slot.value += 1.0

    def fast_path(self, result: str) -> None:
        """A tools/call request took the fast path (``hit``) or went on to the SDK (``miss``)."""
        self._fast_path[result,].value += 1.0

    def auth_refused(self, reason: str) -> None:
        """A request was rejected: no valid token, or a missing permission."""
        self._auth_refused(reason).inc()

    def token_file_read(self, outcome: str) -> None:
        """A changed token file was read: ``ok`` or ``refused``."""
        self._token_file_reads(outcome).inc()

    def inflight(self, count: int) -> None:
        """Requests being answered now, also those that wait."""
        self._inflight(self.slot).set(count)

    def connections(self, count: int) -> None:
        """Client connections open now."""
        self._connections(self.slot).set(count)

    def claim(self, outcome: str) -> None:
        """A claim attempt ended."""
        self._claims[outcome,].value += 1.0

    def claim_conflict(self, kind: str, project: str, item: str) -> None:
        """Two agents conflicted over an item: ``busy``, ``not_holder`` or ``stale_fence``."""
        self._conflicts(kind).inc()
        if kind == "busy":
            self.hot.lost(project, item)

    def claims_held(self, end: str, counts: Mapping[int, int], seconds: float) -> None:
        """Claims that ended in this way: how many, by bucket from 0, and the sum of the times they were held."""
        self._holds(end).add(counts, seconds)

    def claim_losers(self, counts: Mapping[int, int], losers: int) -> None:
        """Claims that ended: their number by count of losers (buckets from 0), and the losers of all of them."""
        self._losers().add(counts, losers)

    def items(self, roles: Mapping[str, int], oldest_ready_seconds: float) -> None:
        """Items of the fleet by role, and the age of the oldest on offer; all 0 if another process counts them."""
        for role in ("queue", "work", "review", "blocked", "terminal"):
            self._items(role).set(roles.get(role, 0))
        self._oldest_ready().set(oldest_ready_seconds)

    def attempts(self, ends: Mapping[str, int], quarantines: int) -> None:
        """Attempts by how they ended, and quarantines, since the last call."""
        for end, count in ends.items():
            self._attempts(end).inc(count)
        if quarantines:
            self._quarantines().inc(quarantines)

    def held_back(self, quarantined: int, in_backoff: int) -> None:
        """Items of the fleet in quarantine and in back-off; both 0 as in ``items``."""
        self._quarantined().set(quarantined)
        self._in_backoff().set(in_backoff)

    def agents(self, known: int, drains: int) -> None:
        """Agents of the fleet, and drains of agents; both 0 as in ``items``."""
        self._agents_known().set(known)
        self._agent_drains().set(drains)

    def abandoned(self, items: int, longest_seconds: float) -> None:
        """Abandoned items of the fleet, and for how long the first has been abandoned; both 0 as in ``items``."""
        self._abandoned().set(items)
        self._oldest_abandoned().set(longest_seconds)

    def agents_waiting(self, count: int) -> None:
        """Claims that wait for an item in this process."""
        self._agents_waiting(self.slot).set(count)

    def claim_waited(self, end: str, seconds: float) -> None:
        """A claim has stopped waiting for an item: ``served``, ``in_vain`` or ``ended``."""
        self._claim_waits(end).observe(seconds)

    def feed_listeners(self, count: int) -> None:
        """Listeners of the change feed in this process."""
        self._feed_listeners(self.slot).set(count)

    def feed_deliveries(self) -> Cell:
        """Counts the events that are sent to listeners."""
        return self._feed_deliveries()

    def feed_late(self, seconds: float) -> None:
        """Events were passed on so long after the oldest of them was committed."""
        self._feed_lag().observe(seconds)

    def feed_cut(self, reason: str) -> None:
        """A listener or a subscription was cut off: ``slow``, ``revoked``, ``drain`` or ``moved``."""
        self._feed_cut(reason).inc()

    def feed_gap(self, reason: str) -> None:
        """Events are missing: ``failover``, ``lost`` or ``trimmed``."""
        self._feed_gaps(reason).inc()

    def subscriptions(self, count: int) -> None:
        """Subscriptions in this process."""
        self._subscriptions().set(count)

    def subscription_told(self) -> None:
        """A subscription was told of a change."""
        self._subscription_told().inc()

    def reads_waiting(self, count: int) -> None:
        """Waiting reads in this process."""
        self._reads_waiting(self.slot).set(count)

    def wait_read(self, reason: str) -> None:
        """What waiting reads wait for is read: a ``call``, ``event``, ``time``, ``reader`` or ``failure``."""
        self._wait_reads[(reason,)].inc()

    def wait_ended(self, outcome: str) -> None:
        """A waiting read ended: ``met``, ``unmet``, ``gone``, ``cancelled`` or ``failed``."""
        self._waits_ended[(outcome,)].inc()

    def webhook_attempt(self, webhook: str, outcome: str, seconds: float) -> None:
        """An attempt at a delivery has ended."""
        self._webhook_attempts(webhook, outcome).inc()
        self._webhook_durations().observe(seconds)

    def runs(self, running: int, paused: bool) -> None:
        """How many attempts a runner has at work, and whether it claims nothing for now."""
        self._run_running().set(running)
        self._runs_paused().set(paused)

    def run_attempt(self, outcome: str, seconds: float, cost: float | None) -> None:
        """An attempt of a runner has ended; ``cost`` in dollars, None: it is not known."""
        self._run_attempts(outcome).inc()
        self._run_durations().observe(seconds)
        self._run_cost().inc(cost or 0.0)

    def run_usage_refused(self, measure: str) -> None:
        """The command of an attempt says that it has used more than is counted; ``measure``: cost or tokens."""
        self._run_refused(measure).inc()

    def webhook_gap(self, reason: str) -> None:
        """Events were missing at the position of a webhook."""
        self._webhook_gaps(reason).inc()

    def webhooks(self, states: Mapping[str, int], lags: Mapping[str, float]) -> None:
        """How many webhooks are in each state, and for how long each could not be told something."""
        for state in webhooks.STATES.dimensions[0].values:
            self._webhook_states(state).set(states.get(state, 0))
        set_all(self._webhook_lags, {(webhook,): lag for webhook, lag in lags.items()})

    def checkpoint(self, outcome: str) -> None:
        """A checkpoint of a workflow session was yielded or answered, or an answer was refused."""
        self._checkpoints(outcome).inc()

    def session_token(self, reason: str) -> None:
        """A session token was refused."""
        self._session_tokens(reason).inc()

    def script(self, script: str, seconds: float, outcome: str, project: str = "") -> None:
        """A store script ended; the outcome is one of ``coordinator.store.outcomes.OUTCOMES``."""
        try:
            durations, counts = self._ran[script, outcome]
        except KeyError:
            durations, counts = self._bind_script(script, outcome)
        durations.observe(seconds)
        for count in counts:
            count.value += 1.0

    def restarted(self, operation: str) -> None:
        """An operation of several scripts starts over, because what it had read has changed."""
        self._restarted(operation).inc()

    def job(self, outcome: str) -> None:
        """A worker finished a job that is not a step."""
        self._jobs(outcome).inc()

    def step(self, outcome: str, seconds: float) -> None:
        """An attempt of a step ended."""
        self._steps(outcome).inc()
        self._step_durations().observe(seconds)

    def step_waited(self, seconds: float) -> None:
        """A worker took a step that had been ready for ``seconds``."""
        self._step_waits().observe(seconds)

    def steps_running(self, count: int) -> None:
        """Steps that this worker executes now."""
        self._steps_running(self.slot).set(count)

    def step_refused(self) -> None:
        """A worker's report of a step came too late and was refused."""
        self._reports_refused().inc()

    def step_leases_lost(self, count: int) -> None:
        """A sweep found leases of steps that had run out."""
        self._leases_lost().inc(count)

    def step_jobs_restored(self, count: int) -> None:
        """A sweep wrote jobs again that had vanished from RQ."""
        self._jobs_restored().inc(count)

    def steps_queued(self, count: int) -> None:
        """Steps that wait for a worker."""
        self._steps_queued().set(count)

    def run_ended(self, run_kind: str, status: str) -> None:
        """A worker brought a run to its end."""
        self._runs_ended(run_kind, status).inc()

    def gateway_submit(self, result: str) -> None:
        """A transition was submitted; result is ok or the error's code."""
        self._gateway_submits(result).inc()

    def gateway_executor(self, kind: str, outcome: str, seconds: float) -> None:
        """An attempt of an executor ended; outcome is ok or the class of its failure."""
        self._gateway_executors(kind, outcome).observe(seconds)

    def loop_lag(self, role: str, seconds: float) -> None:
        """A timer of the event loop ran this late."""
        self._loop_lag(role).observe(seconds)
        self.worst_lag = max(self.worst_lag, seconds)

    def take_worst_lag(self) -> float:
        """The longest ``loop_lag`` since the last call of this method, in seconds."""
        worst, self.worst_lag = self.worst_lag, 0.0
        return worst

    def store_changed(self, changed: bool) -> None:
        """The store is not the one that the fleet had, or is that one again."""
        self._store_changed().set(float(changed))

    def store_watched(self) -> None:
        """This process checks the identity of its store; starts the metric at 0."""
        self._store_changed().set(0.0)
        self._store_went_back().inc(0)

    def store_went_back(self) -> None:
        """The store has lost its last acknowledged writes."""
        self._store_went_back().inc()

    def processes(self, role: str, count: int) -> None:
        """Processes that a supervisor keeps running now."""
        self._processes(role).set(count)

    def restart(self, role: str, cause: str) -> None:
        """A supervisor started a process again."""
        self._restarts(role, cause).inc()

    def process(self) -> None:
        """Samples this process's CPU time and memory; to be called about once a second."""
        used = time.process_time()
        self._cpu(self.slot).inc(used - self.cpu_seen)
        self.cpu_seen = used
        self._memory(self.slot).set(_resident_bytes())

    def build(self, version: str) -> None:
        """Says which code is running."""
        self.version = version
        self.of(catalogue.BUILD_INFO)(version, platform.python_version()).set(1)

    def config(self, digest: str, version: str) -> None:
        """Says which settings are in force, from now on."""
        self.config_version = version
        if self._config is not None:
            self._config.set(0)
        self._config = self._config_info(digest, version)
        self._config.set(1)

    def reload(self, outcome: str) -> None:
        """Settings were reloaded: ``ok`` or ``refused``."""
        self._reloads(outcome).inc()

    def actor(self, result: str, policy: str, whose: str) -> None:
        """An actor's proof was verified, and the degraded-mode policy decided which identity counts."""
        try:
            verifications, trust = self._judged[result, policy, whose]
        except KeyError:
            verifications, trust = self._bind_actor(result, policy, whose)
        verifications.value += 1.0
        trust.value += 1.0

    def signature(self, seconds: float) -> None:
        """A new proof (not one from the cache) was verified."""
        self._signatures().observe(seconds)

    def key_fetch(self, source: str, outcome: str) -> None:
        """A source of keys was asked: ``ok`` or ``failed``."""
        self._key_fetches(source, outcome).inc()

    def key_age(self, source: str, seconds: float) -> None:
        """The age of the oldest keys from sources of this kind."""
        self._key_age(source).set(seconds)

    def identity_state(self, state: str) -> None:
        """The state of the keys of this process: ``off``, ``ok``, ``stale`` or ``unavailable``."""
        for one in ("off", "ok", "stale", "unavailable"):
            self._identity_state(one).set(one == state)

    def identity_policy(self, policy: str) -> None:
        """The degraded-mode policy that this process applies."""
        for one in ("accept-cached", "accept-self-reported", "reject"):
            self._identity_policy(one).set(one == policy)

    def close(self) -> None:
        """Gives up the slot."""
        self._cells.close()

    def _bind_request(self, tool: str, outcome: str, transport: str) -> tuple[Cell, Buckets, Cell]:
        bound = self._requests(tool, outcome), self._durations(tool, transport), self._slot_requests(self.slot)
        self._answered[tool, outcome, transport] = bound
        return bound

    def _bind_script(self, script: str, outcome: str) -> tuple[Buckets, tuple[Cell, ...]]:
        """The script's durations, and the counters that an outcome raises."""
        answered = _ANSWERS.get(outcome, "error")
        counts = [] if answered == "ok" else [self._script_failures(script, answered)]
        if answered == "error":
            counts.append(self._store_errors(outcome))
        if outcome in _WITH_ID:
            counts.append(self._idempotency(outcome))
        bound = self._ran[script, outcome] = self._scripts(script), tuple(counts)
        return bound

    def _bind_actor(self, result: str, policy: str, whose: str) -> tuple[Cell, Cell]:
        bound = self._judged[result, policy, whose] = self._verifications(result), self._trust(policy, whose)
        return bound


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        # Systems other than Linux report only the highest value so far, in KiB or bytes.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


install(Recorder(MemoryCells()))


def recorder() -> Recorder:
    """The recorder of this process: in memory until a command installs a shared one."""
    return cast(Recorder, recording())
