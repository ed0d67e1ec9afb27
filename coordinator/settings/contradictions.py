"""Finds settings that contradict each other, though each is valid by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from coordinator.settings.effective_auth import auth_mode, auth_verifier, authorization_servers, is_loopback
from coordinator.settings.model import APART, TOOLSETS, Settings
from coordinator.settings.problems import KeyPath, short, shown, unknown
from coordinator.settings.sections.connections import connection_problems
from coordinator.settings.sections.identity import verifier_problems
from coordinator.settings.sections.overload import overload_problems
from coordinator.settings.sections.resources import capacities, faults_of
from coordinator.settings.sections.webhooks import webhook_problems
from coordinator.settings.sections.work import CANCELLED, repeated

_MOST_NAMES = 1000


def contradictions(settings: Settings, broken: Collection[str] = ()) -> Iterator[tuple[KeyPath, str]]:
    """Contradictions between settings: where (empty: in no particular place), and a sentence about it.

    The times must fit into each other: a store call into a request, a request into the drain of a stopping process.

    Args:
        broken: settings that were invalid and have been replaced by their defaults.
    """
    if not {"redis_timeout_ms", "request_deadline_ms", "drain_seconds"} & set(broken):
        if settings.redis_timeout_ms >= settings.request_deadline_ms:
            yield (
                (),
                f"redis_timeout_ms ({settings.redis_timeout_ms}) must be below request_deadline_ms "
                f"({settings.request_deadline_ms}): a request has to outlive one store call",
            )
        if settings.request_deadline_ms >= settings.drain_seconds * 1000:
            yield (
                (),
                f"request_deadline_ms ({settings.request_deadline_ms}) must be below drain_seconds "
                f"({settings.drain_seconds} s): a stopping process has to let its last request finish",
            )
    for sentence in toolset_problems(settings.toolsets):
        yield ("toolsets",), f"toolsets: {sentence}"
    yield from _work_problems(settings, broken)
    if "connections" not in broken:
        yield from connection_problems(settings.connections)
    if not {"webhooks", "projects"} & set(broken):
        yield from webhook_problems(settings.webhooks, settings.projects)
    if "actor_authentication" not in broken:
        yield from verifier_problems(settings.actor_authentication.verifier, ("actor_authentication", "verifier"))
    yield from _auth_problems(settings, broken)
    if "overload" not in broken and "request_deadline_ms" not in broken:
        for name, problem in overload_problems(settings.overload, settings.request_deadline_ms):
            yield ("overload", name), f"overload.{name} {problem}"
    if not {"admin_port", "port"} & set(broken) and settings.admin_port and settings.admin_port == settings.port:
        yield ("admin_port",), f"admin_port ({settings.admin_port}) must differ from port"
    yield from _console_problems(settings, broken)


def toolset_problems(names: Sequence[str]) -> Iterator[str]:
    """Why these toolsets cannot be served together."""
    for name in names:
        if name not in TOOLSETS:
            yield f"there is no toolset {shown(name)}; allowed: {', '.join(TOOLSETS)}"
        elif names.count(name) > 1:
            yield f"'{name}' is named twice"
            break
    if set(APART) <= set(names):
        yield (
            f"{' and '.join(APART)} cannot be served together because they share tool names; use one endpoint for "
            f"each: {', '.join(f'/mcp/{name}' for name in APART)}"
        )


def _work_problems(settings: Settings, broken: Collection[str]) -> Iterator[tuple[KeyPath, str]]:
    """Contradictions between the sections about work items, except those in ``broken``."""
    if not {"traits", "work_item_schemas", "default_traits"} & set(broken):
        yield from _unknown_traits(settings)
    for at, sentence in repeated(settings.default_traits or (), ("default_traits",), "the trait"):
        yield at, _named(at, sentence)
    if not {"work_item_schemas", "note_schemas"} & set(broken):
        yield from _unknown_default(settings)
    for tag, notes in (settings.note_schemas or {}).items():
        for at, sentence in repeated((note.key for note in notes), ("note_schemas", tag), "the key"):
            yield at, _named(at, sentence)
    if (settings.status_labels or {}).get("cancel", CANCELLED) != CANCELLED:
        here = ("status_labels", "cancel")
        yield here, _named(here, f"must be left out or {CANCELLED!r}: cancelled items always have this label")
    if not {"resources", "work_item_schemas", "traits"} & set(broken):
        for section in ("work_item_schemas", "traits"):
            for name, stated in (getattr(settings, section) or {}).items():
                for at, sentence in faults_of(
                    stated.resources, capacities(settings.resources), (section, name, "resources")
                ):
                    yield at, _named(at, sentence)
    for section in ("work_item_schemas", "note_schemas", "traits"):
        if len(getattr(settings, section) or ()) > _MOST_NAMES:
            yield (section,), f"{section} may have at most {_MOST_NAMES} entries"


def _unknown_traits(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    traits = settings.traits or {}
    for position, trait in enumerate(settings.default_traits or ()):
        if trait not in traits:
            everywhere: KeyPath = ("default_traits", position)
            yield everywhere, _named(everywhere, unknown("trait", trait, traits))
    for schema, stated in (settings.work_item_schemas or {}).items():
        for position, trait in enumerate(stated.default_traits):
            if trait not in traits:
                here: KeyPath = ("work_item_schemas", schema, "default_traits", position)
                yield here, _named(here, unknown("trait", trait, traits))


def _unknown_default(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    section = "note_schemas" if settings.work_item_schemas is None else "work_item_schemas"
    schemas = getattr(settings, section) or {}
    if settings.default is not None and settings.default not in schemas:
        yield ("default",), f"default: {unknown(f'schema of {section}', settings.default, schemas)}"


def _auth_problems(settings: Settings, broken: Collection[str]) -> Iterator[tuple[KeyPath, str]]:
    """Contradictions in ``auth``, and between it and the address to listen on."""
    if {"auth", "actor_authentication"} & set(broken):
        return
    auth, mode = settings.auth, auth_mode(settings)
    if auth.verifier is not None:
        here: KeyPath = ("auth", "verifier")
        if auth.verifier.type == "noop":
            yield here, "auth.verifier.type must be jwks: noop would verify no token"
        yield from verifier_problems(auth.verifier, here)
    if mode != "none" and not auth.tokens and auth_verifier(settings) is None:
        yield (
            ("auth", "mode"),
            f"auth.mode is {mode}, so valid tokens must be defined: set auth.tokens, or a verifier of type jwks "
            "(auth.verifier or actor_authentication.verifier)",
        )
    if {"host", "insecure_no_auth"} & set(broken):
        return
    if is_loopback(settings.host) or mode == "required" or settings.insecure_no_auth:
        return
    yield (
        ("host",),
        f"host {short(settings.host)} can be reached from other machines, and auth.mode is {mode}, so anybody there "
        "could use the fleet: set auth.mode to required, or use --insecure-no-auth if something else restricts "
        "access",
    )


def _console_problems(settings: Settings, broken: Collection[str]) -> Iterator[tuple[KeyPath, str]]:
    """Contradictions between the console and what it needs."""
    if not {"admin_port", "console"} & set(broken) and settings.console.listener == "admin" and not settings.admin_port:
        yield ("console", "listener"), "console.listener: 'admin' needs admin_port"
    if not {"auth", "actor_authentication", "console"} & set(broken) and settings.console.oauth is not None:
        if not authorization_servers(settings) or auth_verifier(settings) is None:
            needed = "a verifier of type jwks (auth.verifier), and its issuer or auth.authorization_servers"
            yield ("console", "oauth"), f"console.oauth needs {needed}"
        elif auth_mode(settings) == "none":
            yield ("console", "oauth"), "console.oauth needs an auth.mode other than none"


def _named(path: KeyPath, sentence: str) -> str:
    return f"{'.'.join(map(str, path))}: {sentence}"
