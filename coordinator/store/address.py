"""Where the store is: parses the store's URL, once, for both the link and redis-py.

    redis://[user][:password@]host[:port][/db]      rediss://... (TLS)      unix://[user][:password@]/path[?db=0]
    redis+sentinel://[user][:password@]host[:port][,host[:port]...]/service[/db]      rediss+sentinel://... (TLS)

With ``+sentinel`` the hosts are Sentinels, which say where the primary of the service is. User and password are those
of the primary; the Sentinels' own are the options ``sentinel_username`` and ``sentinel_password``.

TLS options are those of redis-py: ``ssl_cert_reqs=required|none``, ``ssl_check_hostname=true|false``,
``ssl_ca_certs``, ``ssl_certfile``, ``ssl_keyfile`` (paths). A URL holds passwords, so show it only through
``settings.redacted``. The text form of an ``Address`` hides them.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from coordinator.store.errors import AddressError

_TLS_OPTIONS = ("ssl_cert_reqs", "ssl_check_hostname", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")
_SCHEMES = ("redis", "rediss", "redis+sentinel", "rediss+sentinel", "unix")
_SENTINELS = re.compile(r"(rediss?\+sentinel://(?:[^/?#]*@)?)([^/?#@]+)")
_SENTINEL_PORT = 26379
_NO_SENTINEL = "store URL: no Sentinel given, as in redis+sentinel://host1,host2,host3/mymaster/0"
_UNREADABLE = (
    "store URL: cannot be read: the port must be a number from 0 to 65535; "
    "in a user name or password write : / ? # @ [ ] as %3A %2F %3F %23 %40 %5B %5D"
)


@dataclass(frozen=True, slots=True)
class Address:
    """A server's endpoint and credentials, or Sentinels that know it. Its text form hides the passwords."""

    host: str = "localhost"
    port: int = 6379
    path: str = ""
    """Of a Unix socket; empty for TCP."""
    db: int = 0
    username: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    tls_options: tuple[tuple[str, str], ...] = ()
    sentinels: tuple[tuple[str, int], ...] = ()
    """Hosts and ports of the Sentinels to ask; host and port above mean nothing then."""
    service: str = ""
    """The name that the Sentinels have for the primary."""
    sentinel_username: str = ""
    sentinel_password: str = field(default="", repr=False)

    def __str__(self) -> str:
        credentials = f"{self.username}{':***' if self.password else ''}@" if self.username or self.password else ""
        if self.path:
            return f"unix://{credentials}{self.path}{f'?db={self.db}' if self.db else ''}"
        place = _place(self.host, self.port)
        if self.sentinels:
            place = ",".join(_place(*sentinel) for sentinel in self.sentinels) + f"/{self.service}"
        return f"{self._scheme}://{credentials}{place}/{self.db}"

    def url(self) -> str:
        """The URL that it can be parsed from, passwords included."""
        user, password = quote(self.username, safe=""), quote(self.password, safe="")
        login = f"{user}:{password}@" if user or password else ""
        if self.path:
            return f"unix://{login}{quote(self.path)}?db={self.db}"
        place, options = _place(self.host, self.port), dict(self.tls_options)
        if self.sentinels:
            place = ",".join(_place(*sentinel) for sentinel in self.sentinels) + f"/{quote(self.service, safe='')}"
            theirs = zip(_SENTINEL_OPTIONS, (self.sentinel_username, self.sentinel_password), strict=True)
            options |= {name: value for name, value in theirs if value}
        query = f"?{urlencode(options)}" if options else ""
        return f"{self._scheme}://{login}{place}/{self.db}{query}"

    @property
    def _scheme(self) -> str:
        return f"{'rediss' if self.tls else 'redis'}{'+sentinel' if self.sentinels else ''}"

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
        """Keyword arguments for ``redis.Redis`` and ``redis.asyncio.Redis``; behind Sentinels without host and port."""
        options: dict[str, Any] = {"db": self.db}
        if self.username:
            options["username"] = self.username
        if self.password:
            options["password"] = self.password
        if self.path:
            return {**options, "unix_socket_path": self.path}
        if not self.sentinels:
            options |= {"host": self.host, "port": self.port}
        return options | self._client_tls()

    def sentinel_options(self) -> dict[str, Any]:
        """The same for clients of the Sentinels themselves."""
        login = {"username": self.sentinel_username, "password": self.sentinel_password}
        return {name: value for name, value in login.items() if value} | self._client_tls()

    def _client_tls(self) -> dict[str, Any]:
        if not self.tls:
            return {}
        options: dict[str, Any] = {"ssl": True, **dict(self.tls_options)}
        options["ssl_check_hostname"] = options.get("ssl_check_hostname", "true") == "true"
        if options.get("ssl_cert_reqs") == "none":
            options["ssl_check_hostname"] = False
        return options


def parse(url: str) -> Address:
    """Reads a store URL.

    Raises:
        AddressError: says which part is wrong and what is allowed; never repeats a password.
    """
    try:
        url, hosts = _split_hosts(url)
        parts = urlsplit(url)
        sentinels = _sentinels(hosts) if hosts else ()
        port = parts.port
    except ValueError:  # its text may hold parts of the password
        raise AddressError(_UNREADABLE) from None
    if parts.scheme not in _SCHEMES:
        raise AddressError(f"store URL: must begin with {'://, '.join(_SCHEMES[:-1])}:// or {_SCHEMES[-1]}://")
    if parts.scheme.endswith("+sentinel") and not sentinels:
        raise AddressError(_NO_SENTINEL)
    if parts.fragment:
        raise AddressError("store URL: '#' is not allowed; in a user name or password write %23")
    options = _options(parts)
    address = _unix(parts, options) if parts.scheme == "unix" else _tcp(parts, options, sentinels, port)
    if options:
        raise AddressError(
            f"store URL: unknown option '{next(iter(options))}' here; allowed: db, with TLS {', '.join(_TLS_OPTIONS)}, "
            f"with +sentinel {' and '.join(_SENTINEL_OPTIONS)}"
        )
    return replace(address, username=unquote(parts.username or ""), password=unquote(parts.password or ""))


def _unix(parts: SplitResult, options: dict[str, str]) -> Address:
    """The address of a socket; takes its options out of ``options``."""
    if not parts.path or parts.hostname:
        raise AddressError("store URL: unix:// needs an absolute path, as in unix:///run/redis.sock")
    return Address(path=unquote(parts.path), db=_db(options.pop("db", "0")))


def _tcp(
    parts: SplitResult, options: dict[str, str], sentinels: tuple[tuple[str, int], ...], port: int | None
) -> Address:
    """The address of a server or of Sentinels; takes its options out of ``options``."""
    tls, path = parts.scheme.startswith("rediss"), parts.path.strip("/")
    address = Address(unquote(parts.hostname or ""), 6379 if port is None else port, tls=tls)
    if sentinels:
        service, _, path = path.partition("/")
        if not service:
            raise AddressError("store URL: no service given, as in redis+sentinel://host1,host2,host3/mymaster/0")
        username, password = (options.pop(name, "") for name in _SENTINEL_OPTIONS)
        address = replace(
            address,
            host="",
            sentinels=sentinels,
            service=unquote(service),
            sentinel_username=username,
            sentinel_password=password,
        )
    elif not parts.hostname:
        raise AddressError("store URL: no host given, as in redis://localhost:6379/0")
    tls_options = {name: options.pop(name) for name in _TLS_OPTIONS if tls and name in options}
    _check_tls(tls_options)
    db = _db(options.pop("db", "") or path or "0")
    return replace(address, db=db, tls_options=tuple(sorted(tls_options.items())))


def _split_hosts(url: str) -> tuple[str, str]:
    """The URL with one host in place of those of Sentinels, and these; '' if there are none.

    ``urlsplit`` knows one host only; whether it lets a list with IPv6 addresses pass depends on the version of Python.
    """
    found = _SENTINELS.match(url)
    return (f"{found[1]}sentinels{url[found.end() :]}", found[2]) if found else (url, "")


def _sentinels(hosts: str) -> tuple[tuple[str, int], ...]:
    """The hosts and ports of a list.

    Raises:
        AddressError, ValueError: one of them is invalid.
    """
    found = []
    for place in hosts.split(","):
        one = urlsplit(f"//{place}")
        if not one.hostname:
            raise AddressError(_NO_SENTINEL)
        found.append((unquote(one.hostname), _SENTINEL_PORT if one.port is None else one.port))
    return tuple(found)


def _place(host: str, port: int) -> str:
    return f"{f'[{host}]' if ':' in host else host}:{port}"


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


def _check_tls(options: dict[str, str]) -> None:
    allowed = {"ssl_cert_reqs": ("required", "none"), "ssl_check_hostname": ("true", "false")}
    for name, values in allowed.items():
        if options.get(name, values[0]) not in values:
            raise AddressError(f"store URL: {name} must be {' or '.join(values)}")
