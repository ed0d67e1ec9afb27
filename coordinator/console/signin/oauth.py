"""Signing in at the fleet's authorization server: OAuth 2.1, authorization code with PKCE (RFC 6749, 7636, 8414, 9207).

What an attempt needs when the visitor comes back is in an encrypted cookie, so any front-end can go on with it; in the
store it is only noted that it was used.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec

from coordinator.console.signin.cookies import Cookie
from coordinator.console.signin.tickets import PATH
from coordinator.identity.callers.authenticator import Authenticator
from coordinator.identity.keys.fetch import JSON_TYPES, Fetcher, FetchFailed
from coordinator.settings import Settings
from coordinator.settings.effective_auth import auth_verifier, console_url, resource_url
from coordinator.settings.sections.console import OAuth
from coordinator.store import Store
from coordinator.store.once import spend
from coordinator.transport.http.replies import Header
from coordinator.transport.rounds.sealing import Seals

BEGIN, CALLBACK = f"{PATH}/oauth", f"{PATH}/callback"
ATTEMPT_SECONDS = 600
METADATA_SECONDS = 600.0
"""How long the metadata of the authorization server are kept."""
_PURPOSE = "console-oauth"
_OPENID = "openid"
_URL = re.compile(r"https?://[!\"$-~]+")


class _Metadata(msgspec.Struct):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    authorization_response_iss_parameter_supported: bool = False
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _Tokens(msgspec.Struct):
    access_token: str
    id_token: str = ""


class _Attempt(msgspec.Struct, array_like=True):
    state: str
    verifier: str
    nonce: str
    after: str
    issuer: str
    ends: int
    """In Unix ms."""


class Failed(Exception):
    """The visitor is not signed in: ``said`` tells them, and ``reason`` the log; neither holds anything secret."""

    def __init__(self, reason: str, said: str = "The authorization server has not signed you in. Try again.") -> None:
        super().__init__(reason)
        self.said = said


class BegunSignIn(NamedTuple):
    """Where the visitor has to go, and the cookie to take along."""

    url: str
    cookie: Header


class Finished(NamedTuple):
    token: str
    after: str
    """The page that they had asked for."""


class OAuthClient:
    """The console as a client of the authorization server, in one process; it may have no ``secret``."""

    def __init__(
        self, settings: Settings, oauth: OAuth, secret: str, authenticator: Authenticator, store: Store, seals: Seals
    ) -> None:
        self._settings = oauth
        self._secret = secret
        base, verifier = console_url(settings), auth_verifier(settings)
        self.begin_url = base + BEGIN
        """Where visitors begin: at the public address, because that is where they come back to."""
        self._redirect_uri = base + CALLBACK
        # Servers that give tokens for a fixed audience do not know resources.
        self._audience = "" if verifier is not None and verifier.audience else resource_url(settings)
        self._authenticator = authenticator
        self._store = store
        self._seals = seals
        self._cookie = Cookie("oauth", settings)
        self._fetcher = Fetcher()
        self._metadata: tuple[str, float, _Metadata] | None = None

    @property
    def server(self) -> str:
        """The name of the authorization server."""
        return urlsplit(self._issuer).netloc

    async def begin(self, head: Mapping[bytes, bytes], after: str) -> BegunSignIn:
        """Begins an attempt. Raises Failed: the authorization server cannot be used now."""
        metadata = await self._found()
        state, verifier, nonce = (secrets.token_urlsafe(32) for _ in range(3))
        ends = int((self._authenticator.now() + ATTEMPT_SECONDS) * 1000)
        attempt = _Attempt(state, verifier, nonce, after, metadata.issuer, ends)
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect_uri,
            "state": state,
            "code_challenge": _unpadded(sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        if self._settings.scopes:
            query["scope"] = " ".join(self._settings.scopes)
        if _OPENID in self._settings.scopes:
            query["nonce"] = nonce
        if self._audience:
            query["resource"] = self._audience
        endpoint = metadata.authorization_endpoint
        url = f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"
        text = await self._seals.seal(self._purpose(head), msgspec.msgpack.encode(attempt))
        return BegunSignIn(url, self._cookie.set(head, self._fleet, text, ATTEMPT_SECONDS))

    async def finish(self, head: Mapping[bytes, bytes], query: Mapping[str, str]) -> Finished:
        """Ends an attempt, with what the authorization server has sent the visitor back with; raises Failed."""
        attempt = await self._attempt(head, query.get("state", ""))
        metadata = await self._found()
        issuer = query.get("iss", "")
        if attempt.issuer != metadata.issuer or (issuer or attempt.issuer) != attempt.issuer:
            raise Failed("the answer is of another authorization server")
        if metadata.authorization_response_iss_parameter_supported and not issuer:
            raise Failed("the answer does not say which authorization server it is of")
        if not query.get("code"):
            raise Failed("the authorization server refused" if query.get("error") else "the answer has no code")
        tokens = await self._tokens(metadata, query["code"], attempt.verifier)
        if _OPENID in self._settings.scopes:
            await self._check_id_token(tokens.id_token, attempt.nonce)
        return Finished(tokens.access_token, attempt.after)

    def over(self, head: Mapping[bytes, bytes]) -> Header:
        """The header that deletes the cookie of an attempt."""
        return self._cookie.set(head, self._fleet, "", 0)

    async def _attempt(self, head: Mapping[bytes, bytes], state: str) -> _Attempt:
        again = "This sign-in has ended, or was begun in another browser. Sign in again."
        text = self._cookie.read(head, self._fleet)
        sealed = await self._seals.open(self._purpose(head), text) if text else None
        if sealed is None:
            raise Failed("no attempt was begun", again)
        attempt = msgspec.msgpack.decode(sealed, type=_Attempt)
        if not hmac.compare_digest(attempt.state.encode(), state.encode(errors="replace")):
            raise Failed("the state is another one", again)
        if not await spend(self._store, attempt.state, attempt.ends):
            raise Failed("the attempt has ended, or was used before", again)
        return attempt

    async def _tokens(self, metadata: _Metadata, code: str, verifier: str) -> _Tokens:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
            "client_id": self._settings.client_id,
        }
        if self._audience:
            form["resource"] = self._audience
        headers = {}
        methods = metadata.token_endpoint_auth_methods_supported
        if self._secret and ("client_secret_basic" in methods or "client_secret_post" not in methods):
            pair = f"{quote_plus(self._settings.client_id)}:{quote_plus(self._secret)}"
            headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        elif self._secret:
            form["client_secret"] = self._secret
        try:
            got = await self._fetcher.post(metadata.token_endpoint, form, headers)
            return msgspec.json.decode(got.body, type=_Tokens)
        except FetchFailed as failed:
            raise Failed(f"the token endpoint {failed}") from None
        except msgspec.MsgspecError:
            raise Failed("the token endpoint gave no access token") from None

    async def _check_id_token(self, text: str, nonce: str) -> None:
        claims: Mapping[str, Any] = await self._authenticator.claims(text) or {}
        audience = claims.get("aud")
        meant = self._settings.client_id in (audience if isinstance(audience, list) else [audience])
        if not meant or not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise Failed("the id token is missing, does not verify, or is for somebody else")

    async def _found(self) -> _Metadata:
        issuer, now = self._issuer, time.monotonic()
        if self._metadata is not None and self._metadata[0] == issuer and now < self._metadata[1]:
            return self._metadata[2]
        reason = ""
        for url in _places(issuer):
            try:
                metadata = msgspec.json.decode((await self._fetcher.get(url, JSON_TYPES)).body, type=_Metadata)
            except FetchFailed as failed:
                reason = str(failed)
                continue
            except msgspec.MsgspecError:
                reason = "names no endpoints"
                continue
            if metadata.issuer != issuer:
                raise Failed("the metadata are of another authorization server")
            if not all(map(_URL.fullmatch, (metadata.authorization_endpoint, metadata.token_endpoint))):
                raise Failed("the metadata name malformed endpoints")
            if issuer.startswith("https:") and not metadata.token_endpoint.startswith("https:"):
                raise Failed("the metadata name a token endpoint without HTTPS")
            self._metadata = issuer, now + METADATA_SECONDS, metadata
            return metadata
        raise Failed(f"the authorization server {reason}", "The authorization server does not answer. Try again later.")

    @property
    def _issuer(self) -> str:
        return next(iter(self._authenticator.authorization_servers), "")

    @property
    def _fleet(self) -> str:
        return self._store.identity.known

    def _purpose(self, head: Mapping[bytes, bytes]) -> str:
        return f"{_PURPOSE}:{self._cookie.audience(head, self._fleet)}"


def open_client(
    settings: Settings, environment: Mapping[str, str], authenticator: Authenticator, store: Store, seals: Seals
) -> OAuthClient | None:
    """The client that the settings ask for; None: people do not sign in at an authorization server."""
    oauth = settings.console.oauth
    if oauth is None:
        return None
    secret = oauth.client_secret or environment.get(oauth.client_secret_env, "")
    return OAuthClient(settings, oauth, secret, authenticator, store, seals)


def _places(issuer: str) -> tuple[str, str]:
    """Where the metadata of an issuer are: by RFC 8414, and by OpenID Connect Discovery."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    return (
        f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{path}",
        f"{issuer.rstrip('/')}/.well-known/openid-configuration",
    )


def _unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
