"""The console as a client of authorization servers of several kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import jwt
import pytest

from coordinator.console.signin.oauth import Failed, Finished, OAuthClient, open_client
from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.settings.sections.console import Console, OAuth
from coordinator.settings.sections.identity import VerifierSettings
from coordinator.store import Store
from coordinator.transport.rounds.sealing import Seals
from tests.console.authority import CLIENT, SECRET, Authority

pytestmark = pytest.mark.anyio

HEAD = {b"host": b"console.example"}


class Authenticator:
    """What the client needs of the fleet's."""

    def __init__(self, issuer: str) -> None:
        self.authorization_servers = (issuer,)
        self.time = 1_000.0

    def now(self) -> float:
        return self.time

    async def claims(self, token: str) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] = jwt.decode(token, options={"verify_signature": False}) if token else {}
        return found


class Site:
    """The client of one fleet."""

    def __init__(self, authority: Authority, store: Store, audience: str = "", **oauth: Any) -> None:
        verifier = VerifierSettings(
            type="jwks", issuer=authority.url, jwks_uri=f"{authority.url}/jwks", audience=audience
        )
        self.settings = Settings(
            auth=Auth(verifier=verifier, resource="https://fleet.example"),
            console=Console(public_url="https://console.example", oauth=OAuth(client_id=CLIENT, **oauth)),
        )
        self.authenticator: Any = Authenticator(authority.url)
        self.store = store

    async def sign_in(self) -> Finished:
        """Goes to the authorization server and comes back."""
        client = open_client(
            self.settings, {"VARIABLE": SECRET}, self.authenticator, self.store, Seals(self.store, self.settings)
        )
        assert client is not None
        begun = await client.begin(HEAD, "/console/after")
        back = await asyncio.to_thread(httpx2.get, begun.url)
        return await self.finish(client, begun.cookie[1], back.headers["location"])

    async def finish(self, client: OAuthClient, cookie: bytes, location: str) -> Finished:
        parts = urlsplit(location)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == "https://console.example/console/signin/callback"
        head = {**HEAD, b"cookie": b"a=b; " + cookie.partition(b";")[0]}
        return await client.finish(head, dict(parse_qsl(parts.query)))


@pytest.fixture
async def now(store: Store) -> float:
    return await store.time() / 1000


async def test_a_confidential_client_shows_its_secret(authority: Authority, store: Store, now: float) -> None:
    for oauth in ({"client_secret": SECRET}, {"client_secret_env": "VARIABLE"}):
        site = Site(authority, store, **oauth)
        site.authenticator.time = now
        found = await site.sign_in()
        assert found.after == "/console/after"
        assert jwt.decode(found.token, options={"verify_signature": False})["aud"] == "https://fleet.example"


async def test_a_server_may_want_the_secret_in_the_form(authority: Authority, store: Store, now: float) -> None:
    authority.changed = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    site = Site(authority, store, client_secret=SECRET)
    site.authenticator.time = now
    assert (await site.sign_in()).token


async def test_a_public_client_has_none(authority: Authority, store: Store, now: float) -> None:
    authority.secret = None
    site = Site(authority, store)
    site.authenticator.time = now
    assert (await site.sign_in()).token


async def test_a_server_of_openid_connect_alone(authority: Authority, store: Store, now: float) -> None:
    authority.oidc_only = True
    authority.changed = {"authorization_response_iss_parameter_supported": False}
    authority.back = {"iss": None}
    site = Site(authority, store, client_secret=SECRET, scopes=("openid",))
    site.authenticator.time = now
    assert (await site.sign_in()).token


async def test_only_what_is_set_is_asked_for(authority: Authority, store: Store, now: float) -> None:
    authority.tokens = {"id_token": None}
    site = Site(authority, store, audience="api://fleet", client_secret=SECRET)
    site.authenticator.time = now
    await site.sign_in()
    assert not {"scope", "nonce", "resource"} & authority.asked[-1].keys()


async def test_an_attempt_ends(authority: Authority, store: Store, now: float) -> None:
    site = Site(authority, store, client_secret=SECRET)
    site.authenticator.time = now - 601
    with pytest.raises(Failed, match="has ended"):
        await site.sign_in()


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://elsewhere.example"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "http://a\r\nb"},
        {"token_endpoint": 1},
    ],
)
async def test_metadata_that_do_not_fit_are_refused(
    authority: Authority, store: Store, now: float, change: dict[str, Any]
) -> None:
    authority.changed = change
    site = Site(authority, store, client_secret=SECRET)
    site.authenticator.time = now
    with pytest.raises(Failed):
        await site.sign_in()


async def test_a_server_that_is_away_is_said_so(store: Store, now: float) -> None:
    with Authority() as authority:
        site = Site(authority, store)
    site.authenticator.time = now
    with pytest.raises(Failed) as failed:
        await site.sign_in()
    assert "does not answer" in failed.value.said
