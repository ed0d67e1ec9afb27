"""The commands of ``fleet webhooks``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from coordinator.cli.acting import Reason, acting
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, unwritten, with_store
from coordinator.cli.terminal import print_json
from coordinator.errors import that_exist
from coordinator.operations import Act, ActResult, record
from coordinator.settings import LoadedSettings
from coordinator.settings.sections.webhooks import Webhook
from coordinator.store import Store
from coordinator.webhooks import messages, signing
from coordinator.webhooks.check import no_roots, secret_of
from coordinator.webhooks.records import WebhookRecord, WebhookRecords
from coordinator.webhooks.sender import Certificates, Sender, SendOutcome
from coordinator.wording import printable

Name = Annotated[str, Parameter(help="The webhook's name in the settings.")]


@with_settings(only=STORE_SETTINGS)
def show_list(
    loaded: LoadedSettings,
    *,
    format: Annotated[Literal["text", "json"], Parameter(help="How to print the list.")] = "text",
) -> None:
    webhooks = loaded.settings.webhooks or {}
    if not webhooks:
        print("fleet: the settings have no webhooks; is --config that of the fleet?", file=sys.stderr)
        if format == "json":
            print_json([])
        return

    async def read(store: Store) -> list[dict[str, Any]]:
        records = await WebhookRecords(store).read(list(webhooks))
        pairs = zip(webhooks.items(), records, strict=True)
        return [_row(name, webhook, record, await _problem(store, webhook)) for (name, webhook), record in pairs]

    rows = with_store(loaded, read)
    if format == "json":
        print_json(rows)
        return
    width = max(map(len, webhooks))
    for row in rows:
        facts = [f"{word} {row[key]}" for key, word in _FACTS.items() if row.get(key)]
        print(printable(f"{row['name']:{width}}  {row['state']:8}  {row['project']}  {'; '.join(facts)}".rstrip()))


_FACTS = {
    "disabledBecause": "because",
    "lastDelivery": "last delivery",
    "waitingSince": "waits since",
    "attempts": "failed attempts",
    "nextAttempt": "next attempt",
    "error": "error:",
    "problem": "but",
}
"""What the text says of a webhook, beside its name, state and project: member of the row -> words before it."""
_WHY = {"": "", "gone": "its receiver answered 410", "failing": "it failed for 5 days"}


@with_settings(only=STORE_SETTINGS)
def test(loaded: LoadedSettings, name: Name) -> None:
    webhook = _named(loaded, name)
    secret = _secret(name, webhook)

    async def send(store: Store) -> tuple[SendOutcome, float]:
        (record,) = await WebhookRecords(store).read([name])
        message = messages.of_test(name, webhook.project, record.now)
        held = signing.in_force(secret, record.sealed, record.earlier, record.now)
        sender = Sender(webhook.url, webhook.allow_private, Certificates())
        began = time.monotonic()
        try:
            signed = signing.headers(message.id, message.body, held.all, datetime.now(UTC))
            return await sender.send(message.body, signed), time.monotonic() - began
        finally:
            await sender.aclose()

    outcome, seconds = with_store(loaded, send)
    if outcome.kind != "delivered":
        raise CommandFailed(f"{name}: {outcome.error}")
    print(f"{name}: the receiver answered with status {outcome.status} after {seconds * 1000:.0f} ms")


@with_settings(only=STORE_SETTINGS)
def pause(loaded: LoadedSettings, name: Name, *, reason: Reason = None) -> None:
    before = _switched(loaded, name, "paused", reason)
    print(f"{name} was paused already" if before == "paused" else f"{name} is paused")


@with_settings(only=STORE_SETTINGS)
def resume(loaded: LoadedSettings, name: Name, *, reason: Reason = None) -> None:
    print(f"{name} was {_switched(loaded, name, 'active', reason)} and goes on")


@with_settings(only=STORE_SETTINGS)
def rotate(loaded: LoadedSettings, name: Name, *, reason: Reason = None) -> None:
    webhook = _named(loaded, name)
    secret = _secret(name, webhook)

    async def write(store: Store) -> ActResult:
        records = WebhookRecords(store)
        (record,) = await records.read([name])
        held = signing.in_force(secret, record.sealed, record.earlier, record.now)
        fresh = signing.rotated(secret, held, record.now)
        if await records.rotate(name, webhook.project, record.sealed, fresh.sealed, fresh.earlier):
            return ActResult("allowed", facts=fresh.secret)
        return ActResult("refused", "it was given another secret at the same moment: try again")

    result = acting(loaded, reason, lambda by: record(by, _act("rotate", name, webhook), lambda: write(by.store)))
    if not result.done:
        raise CommandFailed(f"{name}: {result.said}")
    print(result.facts, flush=True)
    where = f"the variable {webhook.secret_env}" if webhook.secret_env else f"webhooks.{name}.secret"
    print(
        f"The receiver of {name} has {signing.OVERLAP_SECONDS // 3600} hours to change over: until then messages are "
        f"signed with the earlier secret, too. Put the new one into {where} as well.",
        file=sys.stderr,
    )


def _named(loaded: LoadedSettings, name: str) -> Webhook:
    webhooks: Mapping[str, Webhook] = loaded.settings.webhooks or {}
    if name not in webhooks:
        more = that_exist(name, webhooks) if webhooks else "; the settings have none: is --config that of the fleet?"
        raise CommandFailed(f"there is no webhook '{name}'{more}", Exit.USAGE)
    return webhooks[name]


def _secret(name: str, webhook: Webhook) -> str:
    try:
        return secret_of(webhook, os.environ)
    except ValueError as error:
        raise CommandFailed(f"webhooks.{name}.secret_env: {error}", Exit.USAGE) from None


def _switched(loaded: LoadedSettings, name: str, status: Literal["active", "paused"], reason: str | None) -> str:
    """Pauses a webhook, or lets it go on; returns its state before."""
    webhook = _named(loaded, name)

    async def switch(store: Store) -> ActResult:
        before = await WebhookRecords(store).switch(name, webhook.project, status)
        return ActResult("allowed", f"it was {before.state} before", before.state)

    act = _act("pause" if status == "paused" else "resume", name, webhook)
    return str(acting(loaded, reason, lambda by: record(by, act, lambda: switch(by.store))).facts)


def _act(verb: str, name: str, webhook: Webhook) -> Act:
    return Act(f"{verb}_webhook", "webhook", name, webhook.project)


async def _problem(store: Store, webhook: Webhook) -> str:
    """Why a webhook does not hear all that its settings ask for; empty: it does, as far as can be seen."""
    if why := await unwritten(store, webhook.project):
        return why
    without = ", ".join(await no_roots(store, webhook))
    return f"no item without a parent has the id {without}" if without else ""


def _row(name: str, webhook: Webhook, record: WebhookRecord, problem: str) -> dict[str, Any]:
    """A webhook as it is printed; of its URL nothing, because that may hold a secret."""
    row = {
        "name": name,
        "project": webhook.project,
        "state": record.state if record.project == webhook.project else "new",
        "disabledBecause": _WHY[record.why],
        "lastDelivery": _time(record.delivered_at),
        "failingSince": _time(record.failing_since),
        "attempts": record.failures,
        "waitingSince": _time(record.head),
        "nextAttempt": _time(record.not_before) if record.state == "failing" else "",
        "error": record.error,
        "problem": problem,
    }
    return {key: value for key, value in row.items() if value}


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")[:-6] + "Z" if ms else ""
