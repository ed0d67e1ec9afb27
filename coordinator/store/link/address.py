"""Where the store is: parses the store's URL, once, for both the link and redis-py.

    redis://[user][:password@]host[:port][/db]      rediss://... (TLS)      unix://[user][:password@]/path[?db=0]
    redis+sentinel://[user][:password@]host[:port][,host[:port]...]/service[/db]      rediss+sentinel://... (TLS)
    redis+cluster://[user][:password@]host[:port][,host[:port]...]      rediss+cluster://... (TLS)

With ``+sentinel`` the hosts are Sentinels, which say where the primary of the service is. User and password are those
of the primary; the Sentinels' own are the options ``sentinel_username`` and ``sentinel_password``.

With ``+cluster`` the hosts are some nodes of a cluster, which know the others. ``address_map=announced=reachable,...``
says where nodes are reached from here, each host or host:port, if not where they announce themselves. With TLS,
``tls_name=`` is the name that the certificates of all nodes are for, if not the hosts by which they are reached.

TLS options are those of redis-py: ``ssl_cert_reqs=required|none``, ``ssl_check_hostname=true|false``,
``ssl_ca_certs``, ``ssl_certfile``, ``ssl_keyfile`` (paths). A URL holds passwords, so show it only through
``settings.redacted``. The text form of an ``Address`` hides them.
"""

from __future__ import annotations

import itertools
import re
import ssl
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from coordinator.store.errors import AddressError

_TLS_OPTIONS = ("ssl_cert_reqs", "ssl_check_hostname", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")
_SCHEMES = ("redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster", "unix")
_HOSTS = re.compile(r"(rediss?\+(?:sentinel|cluster)://(?:[^/?#]*@)?)([^/?#@]+)")
_PORT = 6379
_SENTINEL_PORT = 26379
_NO_SENTINEL = "store URL: no Sentinel given, as in redis+sentinel://host1,host2,host3/mymaster/0"
_NO_NODE = "store URL: no node given, as in redis+cluster://host1,host2,host3"
_BAD_MAP = "store URL: address_map must be announced=reachable,... as in address_map=10.0.0.1:6379=localhost:7001"
_UNREADABLE = (
    "store URL: cannot be read: the port must be a number from 0 to 65535; "
    "in a user name or password write : / ? # @ [ ] as %3A %2F %3F %23 %40 %5B %5D"
)


Place = tuple[str, int]
"""A host and a port."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server's endpoint and credentials, or Sentinels that know it, or nodes of a cluster.

    Its text form hides the passwords.
    """

    host: str = "localhost"
    port: int = 6379
    path: str = ""
    """Of a Unix socket; empty for TCP."""
    db: int = 0
    username: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    tls_options: tuple[tuple[str, str], ...] = ()
    sentinels: tuple[Place, ...] = ()
    """The Sentinels to ask; host and port above mean nothing then."""
    service: str = ""
    """The name that the Sentinels have for the primary."""
    sentinel_username: str = ""
    sentinel_password: str = field(default="", repr=False)
    nodes: tuple[Place, ...] = ()
    """Nodes of a cluster that know the others; host and port above mean nothing then."""
    address_map: tuple[tuple[str, str], ...] = ()
    """Where nodes of the cluster announce themselves, and where they are reached from here; hosts, or host:port."""
    tls_name: str = ""
    """The name that the nodes' certificates are checked against; empty: that of each host."""
    in_cluster: bool = False
    """Whether it is the address of one node of a cluster."""

    def __str__(self) -> str:
        credentials = f"{self.username}{':***' if self.password else ''}@" if self.username or self.password else ""
        if self.path:
            return f"unix://{credentials}{self.path}{f'?db={self.db}' if self.db else ''}"
        place = _place(self.host, self.port)
        if self.sentinels:
            place = ",".join(_place(*sentinel) for sentinel in self.sentinels) + f"/{self.service}"
        if self.nodes:
            return f"{self._scheme}://{credentials}{','.join(_place(*node) for node in self.nodes)}"
        return f"{self._scheme}://{credentials}{place}/{self.db}"

    @property
    def without_password(self) -> str:
        """For people who will give the password otherwise."""
        return str(replace(self, password=""))

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
        if self.nodes:
            place = ",".join(_place(*node) for node in self.nodes)
            if self.address_map:
                options["address_map"] = ",".join(map("=".join, self.address_map))
            if self.tls_name:
                options["tls_name"] = self.tls_name
        query = f"?{urlencode(options)}" if options else ""
        return f"{self._scheme}://{login}{place}{'' if self.nodes else f'/{self.db}'}{query}"

    @property
    def _scheme(self) -> str:
        kind = "+sentinel" if self.sentinels else "+cluster" if self.nodes else ""
        return f"{'rediss' if self.tls else 'redis'}{kind}"

    def of_node(self, announced: Place) -> Address:
        """The address of a node of the cluster, from where it announces itself."""
        known = dict(self.address_map)
        reached = known.get(_place(*announced)) or known.get(announced[0], "")
        host, port = _node(reached, announced[1]) if reached else announced
        return replace(self, host=host, port=port, nodes=(), address_map=(), in_cluster=True)

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
        """Keyword arguments for ``redis.Redis`` and ``redis.asyncio.Redis``; of one server also with
        host and port."""
        options: dict[str, Any] = {"db": self.db}
        if self.username:
            options["username"] = self.username
        if self.password:
            options["password"] = self.password
        if self.path:
            return {**options, "unix_socket_path": self.path}
        if not self.sentinels and not self.nodes:
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


def is_cluster(url: str) -> bool:
    return url.startswith(("redis+cluster://", "rediss+cluster://"))


def parse(url: str) -> Address:
    """Reads a store URL.

    Raises:
        AddressError: says which part is wrong and what is allowed; never repeats a password.
    """
    try:
        url, hosts = _split_hosts(url)
        parts = urlsplit(url)
        places = _places(hosts, urlsplit(url).scheme.partition("+")[2]) if hosts else ()
        port = parts.port
    except ValueError:  # its text may hold parts of the password
        raise AddressError(_UNREADABLE) from None
    if parts.scheme not in _SCHEMES:
        raise AddressError(f"store URL: must begin with {'://, '.join(_SCHEMES[:-1])}:// or {_SCHEMES[-1]}://")
    if "+" in parts.scheme and not places:
        raise AddressError(_NO_NODE if parts.scheme.endswith("+cluster") else _NO_SENTINEL)
    if parts.fragment:
        raise AddressError("store URL: '#' is not allowed; in a user name or password write %23")
    options = _options(parts)
    address = _unix(parts, options) if parts.scheme == "unix" else _tcp(parts, options, places, port)
    if options:
        raise AddressError(
            f"store URL: unknown option '{next(iter(options))}' here; allowed: db, with TLS {', '.join(_TLS_OPTIONS)}, "
            f"with +sentinel {' and '.join(_SENTINEL_OPTIONS)}, with +cluster address_map, and with TLS tls_name"
        )
    return replace(address, username=unquote(parts.username or ""), password=unquote(parts.password or ""))


def _unix(parts: SplitResult, options: dict[str, str]) -> Address:
    """The address of a socket; takes its options out of ``options``."""
    if not parts.path or parts.hostname:
        raise AddressError("store URL: unix:// needs an absolute path, as in unix:///run/redis.sock")
    return Address(path=unquote(parts.path), db=_db(options.pop("db", "0")))


def _tcp(parts: SplitResult, options: dict[str, str], places: tuple[Place, ...], port: int | None) -> Address:
    """The address of a server, of Sentinels or of nodes; takes its options out of ``options``."""
    tls, path = parts.scheme.startswith("rediss"), parts.path.strip("/")
    address = Address(unquote(parts.hostname or ""), _PORT if port is None else port, tls=tls)
    if parts.scheme.endswith("+cluster"):
        if path or options.get("db", "0") != "0":
            raise AddressError("store URL: a cluster has only the database 0, and its URL no path")
        address = replace(
            address,
            host="",
            nodes=places,
            address_map=_address_map(options.pop("address_map", "")),
            tls_name=options.pop("tls_name", "") if tls else "",
        )
    elif places:
        service, _, path = path.partition("/")
        if not service:
            raise AddressError("store URL: no service given, as in redis+sentinel://host1,host2,host3/mymaster/0")
        username, password = (options.pop(name, "") for name in _SENTINEL_OPTIONS)
        address = replace(
            address,
            host="",
            sentinels=places,
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
    """The URL with one host in place of those of Sentinels or nodes, and these; '' if there are none.

    ``urlsplit`` knows one host only; whether it lets a list with IPv6 addresses pass depends on the version of Python.
    """
    found = _HOSTS.match(url)
    return (f"{found[1]}hosts{url[found.end() :]}", found[2]) if found else (url, "")


def _places(hosts: str, kind: str) -> tuple[Place, ...]:
    """The hosts and ports of a list, of ``sentinel`` or ``cluster``.

    Raises:
        AddressError, ValueError: one of them is invalid.
    """
    port, problem = (_PORT, _NO_NODE) if kind == "cluster" else (_SENTINEL_PORT, _NO_SENTINEL)
    return tuple(_node(place, port, problem) for place in hosts.split(","))


def _node(text: str, default_port: int, problem: str = _BAD_MAP) -> Place:
    """Host and port of ``host[:port]``.

    Raises:
        AddressError: there is no host; says this problem.
        ValueError: the port is invalid.
    """
    one = urlsplit(f"//{text}")
    if not one.hostname:
        raise AddressError(problem)
    return unquote(one.hostname), default_port if one.port is None else one.port


def _address_map(text: str) -> tuple[tuple[str, str], ...]:
    pairs = tuple(tuple(pair.split("=")) for pair in text.split(",")) if text else ()
    if not all(len(pair) == 2 and all(pair) for pair in pairs):
        raise AddressError(_BAD_MAP)
    try:
        for place in itertools.chain(*pairs):
            _node(place, _PORT)
    except ValueError:
        raise AddressError(_BAD_MAP) from None
    return tuple((pair[0], pair[1]) for pair in pairs)


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
