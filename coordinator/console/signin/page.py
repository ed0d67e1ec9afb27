"""The page where visitors sign in and out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote

import htpy
import msgspec
import structlog
from htpy import Node, a, button, code, details, div, form, h2, label, p, section, summary

from coordinator.console.answers import PageAnswer, page, redirect
from coordinator.console.assets import Assets
from coordinator.console.frame import plain_page
from coordinator.console.parts import left, plain
from coordinator.console.signin.oauth import BEGIN, CALLBACK, Failed, OAuthClient
from coordinator.console.signin.sessions import Sessions
from coordinator.console.signin.tickets import PATH
from coordinator.console.viewer import Viewer
from coordinator.errors import ToolFailure
from coordinator.identity.callers.authenticator import LONGEST_TOKEN, TOKEN
from coordinator.transport.http.bodies import Bodies
from coordinator.transport.http.media import is_json
from coordinator.transport.http.replies import Header, Receive, Scope

_log = structlog.get_logger(__name__)

OUT = f"{PATH}/out"
_HOME = "/console"
_LONGEST_QUERY = 8_192
_NEXT = re.compile(r"/console(/[A-Za-z0-9_.~:@%+,=-]+)*(\?[!-~]*)?\Z")
_UP = re.compile(r"(?i)/(\.|%2e){1,2}(/|\?|\Z)")
_WRONG_TOKEN = "This token is not valid here."  # noqa: S105 (a message)
_WRONG_TICKET = "This link has ended, or was used before. Run fleet console again for another one."
_NOT_HERE = "The authorization server knows you, but its token does not open this fleet."
_PLAIN_HTTP = (
    "Over plain HTTP, one can sign in only on the machine of the fleet itself. Use HTTPS, or a tunnel to that machine "
    "(ssh -L), or ask an operator for the setting console.public_url."
)


class _Form(msgspec.Struct):
    token: str = ""
    next: str = ""


class SignIn:
    """The page of one process."""

    def __init__(self, sessions: Sessions, oauth: OAuthClient | None, assets: Assets) -> None:
        self._sessions = sessions
        self._oauth = oauth
        self._assets = assets
        self._bodies = Bodies(4 * LONGEST_TOKEN)

    async def answer(
        self, scope: Scope, receive: Receive, head: Mapping[bytes, bytes], viewer: Viewer | None
    ) -> PageAnswer:
        """Answers a request for ``PATH`` or below it that is not another site's."""
        path, method = scope["path"], scope["method"]
        query = _query(scope["query_string"])
        if path == PATH and method in ("GET", "HEAD"):
            return await self._shown(method, head, query, viewer)
        if path in (BEGIN, CALLBACK) and method == "GET" and self._oauth is not None:
            return await self._by_server(self._oauth, path, head, query, viewer)
        if path not in (PATH, OUT):
            raise ToolFailure("RESOURCE_NOT_FOUND", "there is no such page")
        if method != "POST":
            return self._page(viewer, "", "This address takes POST only.", 405, (b"allow", b"POST"))
        form = _given(head.get(b"content-type"), await self._bodies.read(receive))
        if path == OUT:
            return redirect(PATH, self._sessions.over(head))
        return await self._by_token(head, form, viewer)

    async def _shown(
        self, method: str, head: Mapping[bytes, bytes], query: Mapping[str, str], viewer: Viewer | None
    ) -> PageAnswer:
        after, ticket = query.get("next", ""), query.get("ticket", "")
        # What only looks ahead must not spend it.
        if not ticket or method == "HEAD" or head.get(b"sec-purpose", b"").startswith(b"prefetch"):
            return self._page(viewer, after)
        if self._lacks_https(head):
            return self._page(viewer, after, _PLAIN_HTTP, 403)
        cookie = await self._sessions.by_ticket(head, ticket)
        if cookie is None:
            return self._page(viewer, after, _WRONG_TICKET, 401)
        return redirect(_below(after), cookie)

    async def _by_server(
        self,
        oauth: OAuthClient,
        path: str,
        head: Mapping[bytes, bytes],
        query: Mapping[str, str],
        viewer: Viewer | None,
    ) -> PageAnswer:
        if self._lacks_https(head):
            return self._page(viewer, "", _PLAIN_HTTP, 403)
        over: tuple[Header, ...] = ()
        try:
            if path == BEGIN:
                begun = await oauth.begin(head, _below(query.get("next", "")))
                return redirect(begun.url, begun.cookie)
            over = (oauth.over(head),)
            token, after = await oauth.finish(head, query)
        except Failed as failed:
            _log.warning("a sign-in at the authorization server failed", reason=str(failed))
            return self._page(viewer, "", failed.said, 401, *over)
        cookie = await self._sessions.by_token(head, token, lasting=True) if _is_token(token) else None
        if cookie is None:
            _log.warning("a sign-in at the authorization server failed", reason="its token is not valid here")
            return self._page(viewer, after, _NOT_HERE, 401, *over)
        return redirect(_below(after), cookie, *over)

    async def _by_token(self, head: Mapping[bytes, bytes], form: _Form, viewer: Viewer | None) -> PageAnswer:
        if self._lacks_https(head):
            return self._page(viewer, form.next, _PLAIN_HTTP, 403)
        token = form.token.strip()
        cookie = await self._sessions.by_token(head, token) if _is_token(token) else None
        if cookie is None:
            return self._page(viewer, form.next, _WRONG_TOKEN, 401)
        return redirect(_below(form.next), cookie)

    def _lacks_https(self, head: Mapping[bytes, bytes]) -> bool:
        """Whether the visitor came over plain HTTP, where browsers would not keep the cookie.

        Browsers send ``Sec-Fetch-Site`` over HTTPS and on loopback only; old ones say how they came in ``Origin``.
        """
        if not self._sessions.over_https(head) or b"sec-fetch-site" in head:
            return False
        return not head.get(b"origin", b"").startswith(b"https:")

    def _page(
        self, viewer: Viewer | None, after: str, said: str = "", status: int = 200, *headers: Header
    ) -> PageAnswer:
        after = _below(after)
        ways: Node = [
            _server_link(self._oauth, after) if self._oauth is not None else None,
            _at_terminal(),
            _token_form(after) if self._sessions.takes_tokens else None,
        ]
        inside = viewer is not None and viewer.ends
        if viewer is not None and inside:
            ways = [_signed_in(viewer, after), details[summary["Sign in as somebody else"], ways]]
        # Without it, the browser would not say that the form is ours.
        referrer = htpy.meta(name="referrer", content="same-origin")
        title = "Signed in" if inside else "Sign in to the fleet"
        content = [p(".error", role="alert")[said] if said else None, ways]
        return page(plain_page(viewer, self._assets, title, content, referrer, "signin"), status, *headers)


def signin_path(path: str, query: bytes) -> str:
    """Where a visitor signs in who then goes on to a page."""
    wanted = path + ("?" + query.decode("latin-1") if query else "")
    return PATH if _below(wanted) == _HOME else f"{PATH}?next={quote(wanted, safe='/')}"


def _below(path: str) -> str:
    """The path, if it is one of the console; else its first page."""
    if not _NEXT.match(path) or _UP.search(path) or path.startswith(PATH):
        return _HOME
    return path


def _query(text: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(text.decode("ascii")[:_LONGEST_QUERY], max_num_fields=16))
    except ValueError:
        return {}


def _is_token(text: str) -> bool:
    return len(text) <= LONGEST_TOKEN and text.isascii() and TOKEN.match(text.encode()) is not None


def _given(content_type: bytes | None, body: bytes) -> _Form:
    """What was sent, by a form or as JSON."""
    try:
        if is_json(content_type):
            return msgspec.json.decode(body, type=_Form)
        fields = dict(parse_qsl(body.decode("ascii"), max_num_fields=8))
        return _Form(fields.get("token", ""), fields.get("next", ""))
    except (ValueError, msgspec.MsgspecError):
        raise ToolFailure("VALIDATION_ERROR", "the body must be a form or JSON with token and next") from None


def _signed_in(viewer: Viewer, after: str) -> Node:
    may = "You may see what your permissions open, and change nothing: that is for actors of kind user."
    if viewer.is_person:
        may = (
            "You may change what your permissions open; to drain the fleet or end claims takes the permission operate."
        )
    if viewer.operates:
        may = "You may change what your permissions open, drain the fleet and end claims."
    return section[
        p["You are signed in as ", htpy.b[plain(viewer.name)], ", ", left(int(viewer.ends * 1000)), "."],
        p(".dim")[may],
        form(method="post", action=OUT)[
            div(".buttons")[a(".button", href=after)["Go on to the console"], button["Sign out"]]
        ],
    ]


def _server_link(oauth: OAuthClient, after: str) -> Node:
    return section[a(".button.primary", href=f"{oauth.begin_url}?next={quote(after)}")[f"Sign in at {oauth.server}"]]


def _at_terminal() -> Node:
    return section[
        h2["At a terminal of the fleet"],
        p(".dim")["Run ", code["fleet console"], " and open the link that it prints. It signs you in as its operator."],
    ]


def _token_form(after: str) -> Node:
    return section[
        h2["With a token"],
        p(".dim")["Tokens of people may change what their permissions open; those of agents only show."],
        form(method="post", action=PATH)[
            htpy.input(type="hidden", name="next", value=after),
            label(for_="token")["Bearer token"],
            htpy.input(
                id="token",
                type="password",
                name="token",
                autocomplete="off",
                required=True,
                maxlength=str(LONGEST_TOKEN),
            ),
            button["Sign in"],
        ],
    ]
