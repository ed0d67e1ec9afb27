"""A small authorization server: it asks nobody, and gives tokens for whom the test names."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, quote_plus, urlencode, urlsplit

from tests.identity.signing import Signer, jwks
from tests.support.web import LocalServer, Quiet

OPENID = "/.well-known/openid-configuration"
CLIENT, SECRET = "fleet-console", "s3cret:/?"
Json = dict[str, Any]


class Authority:
    """The server."""

    def __init__(self) -> None:
        self.signer = Signer()
        self.person: Json = {}
        """Claims of access tokens."""
        self.back: Json = {}
        """What it changes in the query of the way back; None leaves a parameter out."""
        self.tokens: Json = {}
        """The same for the answer of the token endpoint."""
        self.id_token: Json = {}
        """The same for the claims of id tokens."""
        self.changed: Json = {}
        """The same for its metadata."""
        self.oidc_only = False
        """Whether its metadata are where OpenID Connect has them, and only there."""
        self.secret: str | None = SECRET
        """That of the client; None: it has none."""
        self.asked: list[Json] = []
        self._codes: dict[str, Json] = {}
        authority = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/authorize":
                    self.send_response(302)
                    self.send_header("location", authority.authorize(dict(parse_qsl(parts.query))))
                    self.send_header("content-length", "0")
                    self.end_headers()
                elif parts.path == "/jwks":
                    self._json(200, jwks(authority.signer))
                elif parts.path == ("/.well-known/oauth-authorization-server", OPENID)[authority.oidc_only]:
                    self._json(200, authority.metadata)
                elif parts.path == "/frame":
                    self._send(200, "text/html", f'<iframe src="{parse_qs(parts.query)["of"][0]}"></iframe>'.encode())
                else:
                    self._json(404, {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                self._json(*authority.exchange({name: one[0] for name, one in parse_qs(body).items()}, self.headers))

            def _json(self, status: int, value: Json) -> None:
                self._send(status, "application/json", json.dumps(value).encode())

            def _send(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = LocalServer(Handler)

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def metadata(self) -> Json:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "authorization_response_iss_parameter_supported": True,
            **self.changed,
        }

    def authorize(self, query: Json) -> str:
        """Where the visitor is sent back to."""
        code = secrets.token_urlsafe(8)
        self.asked.append(query)
        self._codes[code] = query
        back = {"code": code, "state": query["state"], "iss": self.url, **self.back}
        return f"{query['redirect_uri']}?{urlencode({name: one for name, one in back.items() if one is not None})}"

    def exchange(self, form: Json, headers: Any) -> tuple[int, Json]:
        """The answer of the token endpoint."""
        asked = self._codes.pop(form.get("code", ""), None)
        proof = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if asked is None or not self._knows(form, headers["authorization"]):
            return 400, {"error": "invalid_grant"}
        if proof.rstrip(b"=").decode() != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        said = {"iss": self.url, "aud": form.get("resource"), **self.person}
        about = {"iss": self.url, "aud": CLIENT, "nonce": asked.get("nonce"), **self.id_token}
        answer = {
            "access_token": self.signer.token(said.pop("sub", "ada"), **said),
            "id_token": self.signer.token(self.person.get("sub", "ada"), **about),
            "token_type": "Bearer",
        }
        return 200, {name: one for name, one in {**answer, **self.tokens}.items() if one is not None}

    def _knows(self, form: Json, authorization: str | None) -> bool:
        """Whether the client has shown its secret, in the way that the metadata ask for."""
        if self.secret is None:
            return authorization is None and form["client_id"] == CLIENT and "client_secret" not in form
        if "token_endpoint_auth_methods_supported" in self.changed:
            return authorization is None and form.get("client_secret") == self.secret
        wanted = base64.b64encode(f"{CLIENT}:{quote_plus(self.secret)}".encode()).decode()
        return authorization == f"Basic {wanted}" and "client_secret" not in form

    def reset(self) -> None:
        """Forgets what a test has set."""
        self.person = {"sub": "ada", "kind": "user", "roles": ["human"], "permissions": ["*"]}
        self.back, self.tokens, self.id_token, self.changed = {}, {}, {}, {}
        self.oidc_only, self.secret = False, SECRET

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()
