"""What the status of an HTTP answer says about a connection, in words without addresses and secrets."""

from __future__ import annotations

import time
from http import HTTPStatus
from urllib.parse import urljoin, urlsplit

import httpx2

from coordinator.client.retries import retry_after
from coordinator.settings.sections.connections import VARIABLE, Connection

_NONE = "the connection has no headers with credentials"
_MEANINGS = {
    404: "there is nothing at this path",
    405: "it takes no such requests at this path",
    429: "it limits the rate of calls",
    500: "it failed",
    502: "a proxy in front of it gets no answer from it",
    503: "it is overloaded or down",
    504: "a proxy in front of it gets no answer from it in time",
}
_LONGEST_HOST = 100


def status_problem(answer: httpx2.Response, connection: Connection, said: str = "") -> str:
    """Why the status of an answer is no success; completes "the server ...".

    Args:
        connection: its headers and variables are named if the server refused them.
        said: the server's own message; empty if it has none.
    """
    status, credentials = answer.status_code, _credentials(connection)
    if answer.has_redirect_location:
        why = f"it redirects to {_host_of_redirect(answer)}, which is not followed"
    elif status == 401:
        why = f"it refuses {credentials}" if credentials else f"it wants credentials, and {_NONE}"
    elif status == 403:
        why = f"it refuses access with {credentials}" if credentials else f"it refuses access, and {_NONE}"
    else:
        why = _MEANINGS.get(status, "")
    words = f"{why}; it says: {said}" if why and said else why or said or _phrase(status)
    seconds = seconds_to_wait(answer) if status == 429 or status >= 500 else 0.0
    return (
        f"answered with status {status}"
        + (f": {words}" if words else "")
        + (f" (wait {seconds:g} s)" if seconds else "")
    )


def seconds_to_wait(answer: httpx2.Response) -> float:
    """How long an answer asks to wait; 0 if it does not say."""
    return retry_after(answer.headers.get("retry-after"), time.time())


def _credentials(connection: Connection) -> str:
    """The names of the headers and variables that the server was given; empty if there are none."""
    sources = [f"the header {name}{_variables(value)}" for name, value in connection.headers.items()]
    in_url = _variables(connection.url or connection.base_url)
    return " and ".join([*sources, f"its URL{in_url}"] if in_url else sources)


def _variables(text: str) -> str:
    names = ", ".join(dict.fromkeys(VARIABLE.findall(text)))
    return f" (from {names})" if names else ""


def _host_of_redirect(answer: httpx2.Response) -> str:
    # The name that was asked for; the URL may have an address in its place.
    origin = f"{answer.request.url.scheme}://{answer.request.headers['host']}"
    try:
        leads = urlsplit(urljoin(origin, answer.headers.get("location", "")))
    except ValueError:
        return "what is no URL"
    target = f"{leads.scheme}://{leads.netloc.rpartition('@')[2]}"
    return "another path of its own" if target == origin else target[:_LONGEST_HOST]


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
