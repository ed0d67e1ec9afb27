"""Where the store is: parses the store's URL, once, for both the link and redis-py.

    redis://[user][:password@]host[:port][/db]      rediss://... (TLS)      unix://[user][:password@]/path[?db=0]

TLS options are those of redis-py: ``ssl_cert_reqs=required|none``, ``ssl_check_hostname=true|false``,
``ssl_ca_certs``, ``ssl_certfile``, ``ssl_keyfile`` (paths). A URL holds the password, so show it only through
``settings.redacted``. The text form of an ``Address`` hides the password.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

import redis

from coordinator.store.errors import AddressError

_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_TLS_OPTIONS = ("ssl_cert_reqs", "ssl_check_hostname", *_TLS_FILES)
_SCHEMES = ("redis", "rediss", "unix")


@dataclass(frozen=True, slots=True)
class Address:
    """A server's endpoint and credentials. Its text form hides the password."""

    host: str = "localhost"
    port: int = 6379
    path: str = ""
    """Of a Unix socket; empty for TCP."""
    db: int = 0
    username: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    tls_options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        credentials = f"{self.username}{':***' if self.password else ''}@" if self.username or self.password else ""
        if self.path:
            return f"unix://{credentials}{self.path}{f'?db={self.db}' if self.db else ''}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{credentials}{host}:{self.port}/{self.db}"

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context that the URL asks for; None: no TLS.

        Raises:
            AddressError: a certificate file cannot be read.
        """
        if not self.tls:
            return None
        options = dict(self.tls_options)
        try:
            context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
            if "ssl_certfile" in options:
                context.load_cert_chain(options["ssl_certfile"], options.get("ssl_keyfile"))
        except (OSError, ssl.SSLError) as error:
            raise AddressError(f"store URL {self}: cannot load the TLS certificates or keys: {error}") from None
        context.check_hostname = options.get("ssl_check_hostname", "true") == "true"
        if options.get("ssl_cert_reqs") == "none":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def client_options(self) -> dict[str, Any]:
        """Keyword arguments for ``redis.Redis`` and ``redis.asyncio.Redis``."""
        options: dict[str, Any] = {"db": self.db}
        if self.username:
            options["username"] = self.username
        if self.password:
            options["password"] = self.password
        if self.path:
            return {**options, "unix_socket_path": self.path}
        options |= {"host": self.host, "port": self.port}
        if self.tls:
            tls: dict[str, Any] = {"ssl": True, **dict(self.tls_options)}
            tls["ssl_check_hostname"] = tls.get("ssl_check_hostname", "true") == "true"
            if tls.get("ssl_cert_reqs") == "none":
                tls["ssl_check_hostname"] = False
            options |= tls
        return options


Resolver = Callable[[], Awaitable[Address]]
"""Asked before every connection attempt: where the primary is now."""


def parse(url: str) -> Address:
    """Reads a store URL.

    Raises:
        AddressError: says which part is wrong and what is allowed; never repeats a password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text may hold parts of the password
        raise AddressError(
            "store URL: cannot be read: the port must be a number from 0 to 65535; "
            "in a user name or password write : / ? # @ [ ] as %3A %2F %3F %23 %40 %5B %5D"
        ) from None
    if parts.scheme not in _SCHEMES:
        raise AddressError("store URL: must begin with redis://, rediss:// or unix://")
    if parts.fragment:
        raise AddressError("store URL: '#' is not allowed; in a user name or password write %23")
    options = _options(parts)
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    if parts.scheme == "unix":
        if not parts.path or parts.hostname:
            raise AddressError("store URL: unix:// needs an absolute path, as in unix:///run/redis.sock")
        db = _db(options.pop("db", "0"))
        _no_more(options)
        return Address(path=unquote(parts.path), db=db, username=username, password=password)
    if not parts.hostname:
        raise AddressError("store URL: no host given, as in redis://localhost:6379/0")
    db = _db(options.pop("db", "") or parts.path.strip("/") or "0")
    tls = parts.scheme == "rediss"
    tls_options = {name: options.pop(name) for name in _TLS_OPTIONS if tls and name in options}
    _no_more(options)
    _check_tls(tls_options)
    return Address(
        host=unquote(parts.hostname),
        port=6379 if port is None else port,
        db=db,
        username=username,
        password=password,
        tls=tls,
        tls_options=tuple(sorted(tls_options.items())),
    )


def url_of(client: redis.Redis) -> str:
    """The URL, password included, of the server that a redis-py client is connected to."""
    pool = client.connection_pool
    options = pool.connection_kwargs
    password = quote(options.get("password") or "", safe="")
    user = quote(options.get("username") or "", safe="")
    login = f"{user}:{password}@" if user or password else ""
    if "path" in options:
        return f"unix://{login}{quote(options['path'])}?db={options.get('db') or 0}"
    host = options.get("host") or "localhost"
    place = f"{login}{f'[{host}]' if ':' in host else host}:{options.get('port') or 6379}/{options.get('db') or 0}"
    if not issubclass(pool.connection_class, redis.SSLConnection):
        return f"redis://{place}"
    stated = {name: options[name] for name in _TLS_FILES if options.get(name)}
    if options.get("ssl_check_hostname") is False:
        stated["ssl_check_hostname"] = "false"
    if options.get("ssl_cert_reqs") in ("none", ssl.CERT_NONE):
        stated["ssl_cert_reqs"] = "none"
    return f"rediss://{place}?{urlencode(stated)}"


def _options(parts: SplitResult) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in options:
            raise AddressError(f"store URL: the option '{name}' is there twice")
        options[name] = value
    return options


def _db(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise AddressError("store URL: the database must be a number, as in redis://localhost:6379/0")
    return int(text)


def _no_more(options: dict[str, str]) -> None:
    if options:
        name = next(iter(options))
        raise AddressError(
            f"store URL: unknown option '{name}' here; allowed: db, and for rediss:// {', '.join(_TLS_OPTIONS)}"
        )


def _check_tls(options: dict[str, str]) -> None:
    allowed = {"ssl_cert_reqs": ("required", "none"), "ssl_check_hostname": ("true", "false")}
    for name, values in allowed.items():
        if options.get(name, values[0]) not in values:
            raise AddressError(f"store URL: {name} must be {' or '.join(values)}")
