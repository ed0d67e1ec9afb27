"""What is wrong with the section ``webhooks``, beyond what the settings themselves check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from coordinator.errors import ToolFailure
from coordinator.feed import Cursor, Filter, position
from coordinator.feed.cursor import START
from coordinator.feed.filters import dashed, ids_of, kinds_of
from coordinator.identity.keys.ssrf import SsrfGuard
from coordinator.settings.problems import KeyPath
from coordinator.settings.sections.webhooks import SECRET_RULE, Webhook, is_secret
from coordinator.store import Store


def problems(webhooks: Mapping[str, Webhook] | None) -> Iterator[tuple[KeyPath, str]]:
    """The problems: where, and a sentence about each."""
    for name, webhook in (webhooks or {}).items():
        checks: tuple[tuple[str, Callable[[Webhook], object]], ...] = (("kinds", _kinds), ("root", _roots))
        for field, check in checks:
            try:
                check(webhook)
            except ToolFailure as failure:
                yield ("webhooks", name, field), failure.message.removeprefix(f"{field}: ")
        if not webhook.allow_private and _is_private(webhook.url):
            yield (
                ("webhooks", name, "url"),
                "names an address that is not public: name a public host, or set allow_private: true",
            )


def filter_of(webhook: Webhook) -> Filter:
    """Which events a webhook gets. Raises ToolFailure: its filters are wrong."""
    return Filter(kinds=_kinds(webhook), roots=_roots(webhook))


def secret_of(webhook: Webhook, environment: Mapping[str, str]) -> str:
    """The secret of a webhook.

    Raises:
        ValueError: the variable is missing, or holds none. The message does not hold its value.
    """
    if webhook.secret:
        return webhook.secret
    secret = environment.get(webhook.secret_env)
    if secret is None:
        raise ValueError(f"the environment variable {webhook.secret_env} is not set")
    if not is_secret(secret.strip()):
        raise ValueError(f"the environment variable {webhook.secret_env} must hold {SECRET_RULE}")
    return secret.strip()


def secret_problems(
    webhooks: Mapping[str, Webhook] | None, environment: Mapping[str, str]
) -> Iterator[tuple[KeyPath, str]]:
    """Secrets that the environment of this process lacks."""
    for name, webhook in (webhooks or {}).items():
        try:
            secret_of(webhook, environment)
        except ValueError as error:
            yield ("webhooks", name, "secret_env"), str(error)


def _kinds(webhook: Webhook) -> frozenset[str]:
    return kinds_of(webhook.kinds or None)


def _roots(webhook: Webhook) -> frozenset[str]:
    return ids_of(webhook.root, "root", items_only=True) if webhook.root else frozenset()


async def no_roots(store: Store, webhook: Webhook) -> list[str]:
    """Ids among its roots that are none: of what was deleted, of items with a parent, misspelt ones.

    Raises:
        ToolFailure: the store does not answer.
    """
    roots = sorted(_roots(webhook))
    found = await position.read(store, Cursor(webhook.project, "", START), 0, tuple(roots))
    return [dashed(root) for root, what in zip(roots, found.known, strict=True) if what != "root"]


def _is_private(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return not SsrfGuard().allowed(ip_address(host))
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
