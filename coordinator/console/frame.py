"""What all pages have in common: head, navigation, header and the state of the connection."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import htpy
from htpy import Node, a, body, button, div, h1, header, html, li, link, main, meta, nav, script, span, title, ul

from coordinator.console.acts.buttons import MODULE, action_dialogs
from coordinator.console.assets import Assets
from coordinator.console.keyboard import dialogs
from coordinator.console.parts import SPRITE, icon, plain, sentence, short
from coordinator.console.signin.tickets import PATH
from coordinator.console.view import View, Visit, path_of
from coordinator.console.viewer import Viewer
from coordinator.console.views import NAVIGATION
from coordinator.console.views.needs import APPROVALS
from coordinator.store.keys import PROJECT

PLAIN = ("main.js", "live.js")
"""The modules of a page for somebody who has yet to sign in."""


def modules_of(view: View | None = None) -> tuple[str, ...]:
    """The modules of a page; of one without navigation."""
    return (*PLAIN, *(() if view is None else view.modules), "keys.js")


def frame(visit: Visit, content: Node, assets: Assets, position: str, needs: Node) -> str:
    """A whole page.

    Args:
        position: of the project's feed, before anything of the page was read; empty: the page is about no project.
        needs: how much waits for a person, shown with the page where it can be answered.
    """
    view, project = visit.view, visit.project or _came_from(visit)
    live = {"data_live": path_of("live", project), "data_position": position} if position else {}
    return _document(
        f"{view.title} {short(visit.id)} - {project or 'fleet'}",
        assets,
        [
            _header(visit.viewer, project, bool(view.regions), view),
            _navigation(visit, project, needs),
            main(id="main", tabindex="-1", data_view=view.name, **live)[
                h1(".title")[view.title] if view.titled else None, content
            ],
        ],
        modules_of(view),
        [dialogs(visit.viewer, project), action_dialogs() if MODULE in view.modules else None],
    )


def _came_from(visit: Visit) -> str:
    """The project that a visitor of a page about none has come from, so that they find back."""
    project = visit.query.get("project", "")
    return project if PROJECT.fullmatch(project) and visit.viewer.sees(project) else ""


def problem(viewer: Viewer | None, assets: Assets, name: str, message: str, *, again: bool = False) -> str:
    """A page that says what went wrong; if ``again``, a header has it loaded again soon."""
    hint = htpy.p["This page tries again by itself."] if again else None
    ways = htpy.p[a(href="/console")["Go to the overview"], " or ", a(href=path_of("system"))["to the system"], "."]
    return plain_page(viewer, assets, name, [htpy.p[sentence(message)], hint, ways])


def plain_page(
    viewer: Viewer | None, assets: Assets, name: str, content: Node, head: Node = None, kind: str = "problem"
) -> str:
    """A page without navigation.

    Args:
        kind: how it looks, a class.
    """
    content_box = main(f".{kind}", id="main", tabindex="-1")[h1(".title")[name], content]
    if viewer is None:
        return _document(name, assets, [content_box], PLAIN, head=head)
    return _document(name, assets, [_header(viewer, "", False), content_box], modules_of(), dialogs(viewer, ""), head)


def _document(
    name: str,
    assets: Assets,
    content: Iterable[Node],
    modules: tuple[str, ...],
    further: Node = None,
    head: Node = None,
) -> str:
    return str(
        html(lang="en")[
            htpy.head[
                meta(charset="utf-8"),
                title[f"{name} - fleet console"],
                meta(name="viewport", content="width=device-width, initial-scale=1"),
                meta(name="color-scheme", content="light dark"),
                link(rel="icon", href=assets.url("icon.svg"), type="image/svg+xml"),
                link(rel="stylesheet", href=assets.url("console.css")),
                script(type="module", src=assets.script(modules)),
                head,
            ],
            body[a(".skip", href="#main")["Skip to the content"], SPRITE, content, _status(), further],
        ]
    )


def _header(viewer: Viewer, project: str, live: bool, view: View | None = None) -> Node:
    chosen = f"?project={project}" if project else ""
    if project and view is not None and view.of_project and not view.takes_id:
        chosen += f"&view={view.name}"
    return header(".top")[
        a(".brand", href="/console", aria_label="fleet: console")[icon("fleet"), span(".wide")["fleet"]],
        a(".project", href=path_of("projects") + chosen, data_project=project, title="Choose a project")[
            _swatch(project), span(".cut")[project or "choose a project"]
        ],
        span(".live", id="live", data_state="live" if live else "still")[
            span(".dot"), span(id="live-text")["live" if live else ""]
        ],
        button(".quiet", id="pause", type="button", aria_pressed="false", title="Pause updates (r)")["pause"]
        if live
        else None,
        span(".grow"),
        button(".quiet", id="theme", type="button", title="Light or dark")[icon("theme"), " ", span(".wide")["theme"]],
        button(".quiet", id="help", type="button", commandfor="keys", command="show-modal", title="Keys (?)")["?"],
        a(".who", href=PATH, title="Sign in or out")[
            span(".cut")[plain(viewer.name)],
            span(".kind")[viewer.caller.kind if viewer.caller is not None else "read only"],
        ],
    ]


def _swatch(project: str) -> Node:
    """A project's own colour, so that nobody acts in the wrong window."""
    hue = crc32(project.encode()) % 360
    square = htpy.rect(width="10", height="10", rx="3", fill=f"hsl({hue} 60% 50%)")
    return htpy.svg(".swatch", aria_hidden="true", viewBox="0 0 10 10")[square]


def _navigation(visit: Visit, project: str, needs: Node) -> Node:
    of = f"?project={project}" if project else ""
    opened = project or visit.viewer.first_project(visit.listed)

    def entry(view: View, key: str) -> Node:
        if not view.open_to(visit.viewer):
            return None
        path = path_of(view.name, opened) if view.of_project else path_of(view.name) + of
        current = "page" if view is visit.view else None
        count = needs if view.name == APPROVALS else None
        return li[a(href=path, aria_current=current, data_go=key)[icon(view.name), span[view.title], count]]

    return nav(".views", aria_label="Views")[ul[(entry(view, key) for view, key in NAVIGATION)]]


def _status() -> Node:
    return [
        div(".banner", id="banner", role="status", hidden=True),
        div(".polite", id="polite", role="status", aria_live="polite"),
        div(".toasts", id="toasts"),
    ]
