"""Delivers to all webhooks of the settings, in one front-end of the fleet."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Mapping

import structlog

from coordinator.feed import FeedReader
from coordinator.settings import Settings
from coordinator.settings.sections.webhooks import Webhook
from coordinator.store import Store
from coordinator.store.fleet.leader_task import LeaderTask
from coordinator.webhooks.check import filter_of, secret_of
from coordinator.webhooks.delivery import Delivery
from coordinator.webhooks.metrics import LAG, STATES
from coordinator.webhooks.records import LEASE, WebhookRecords
from coordinator.webhooks.sender import Certificates, Sender

_log = structlog.get_logger(__name__)


class Webhooks(LeaderTask):
    """The deliveries of this process while it leads.

    Args:
        process: the name of this process, unique in the fleet.
        environment: where the secrets are that the settings name by variable.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        reader: FeedReader,
        process: str,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        super().__init__(store, LEASE, process)
        self._store = store
        self._reader = reader
        self._environment = environment
        self._records = WebhookRecords(store, process)
        self._certificates = Certificates()
        self._running: dict[str, tuple[Delivery, asyncio.Task[None]]] = {}
        self._unusable: set[str] = set()
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        self._wanted: Mapping[str, Webhook] = settings.webhooks or {}

    async def round(self) -> bool:
        # Without webhooks nobody has to lead.
        if not self._wanted and not self._running:
            return False
        return await super().round()

    async def _look(self) -> None:
        secrets = self._secrets()
        for name, (delivery, task) in list(self._running.items()):
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                _log.error("deliveries to a webhook failed", webhook=name, exc_info=error)
            if task.done() or (delivery.webhook, delivery.secret) != (self._wanted.get(name), secrets.get(name)):
                await self._end(name)
        for name, secret in secrets.items():
            if name not in self._running:
                self._begin(name, self._wanted[name], secret)
        await self._report()

    async def _leave(self) -> None:
        await self._end(*self._running)

    def _clear(self) -> None:
        for _, task in self._running.values():
            task.cancel()
        self._running.clear()
        _record(Counter(), {})

    def _begin(self, name: str, webhook: Webhook, secret: str) -> None:
        sender = Sender(webhook.url, webhook.allow_private, self._certificates)
        of = (name, webhook, secret, filter_of(webhook), self._store, self._records, self._reader, sender)
        delivery = Delivery(*of)
        self._running[name] = (delivery, asyncio.create_task(delivery.run(), name=f"webhook {name}"))

    async def _end(self, *names: str) -> None:
        tasks = [self._running.pop(name)[1] for name in names]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _secrets(self) -> dict[str, str]:
        """The secret of each webhook that has a usable one."""
        secrets: dict[str, str] = {}
        for name, webhook in self._wanted.items():
            try:
                secrets[name] = secret_of(webhook, self._environment)
                self._unusable.discard(name)
            except ValueError as error:
                if name not in self._unusable:
                    _log.error(
                        "a webhook has no secret, so nothing is delivered to it", webhook=name, reason=str(error)
                    )
                self._unusable.add(name)
        return secrets

    async def _report(self) -> None:
        """Tells the deliveries what operators have changed, and publishes the states of all webhooks."""
        states: Counter[str] = Counter({"unusable": len(self._wanted.keys() - self._running.keys())})
        lags: dict[str, float] = {}
        if self._running:
            for name, record in zip(self._running, await self._records.read(list(self._running)), strict=True):
                delivery = self._running[name][0]
                delivery.look(record)
                states[record.state] += 1
                lags[name] = delivery.lag_seconds
        _record(states, lags)


def _record(states: Mapping[str, int], lags: Mapping[str, float]) -> None:
    """How many webhooks are in each state, and for how long each could not be told something."""
    STATES.set_all({(state,): states.get(state, 0) for state in STATES.dimensions[0].values})
    LAG.set_all({(webhook,): lag for webhook, lag in lags.items()})
