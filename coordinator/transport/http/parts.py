"""What a front-end consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from coordinator.feed import FeedReader
from coordinator.identity.callers.authenticator import Authenticator
from coordinator.overload import Admission, ShardedAdmission
from coordinator.settings import Settings
from coordinator.toolsets.tool import Toolset
from coordinator.transport.calls import Calls, Hints
from coordinator.transport.endpoints import Endpoints
from coordinator.transport.fast_path.calls import FastPath
from coordinator.transport.feed.endpoint import Feed
from coordinator.transport.http.admin import AdminApp
from coordinator.transport.http.authorization import Authorization
from coordinator.transport.http.bodies import Bodies
from coordinator.transport.http.cors import Cors
from coordinator.transport.http.delegations import Delegations
from coordinator.transport.http.guards import Gate
from coordinator.transport.http.health import PROBES, PROBES_OF_CLIENTS, Health, Pingable
from coordinator.transport.http.welcome import Welcome
from coordinator.transport.mcp.listening import Listening
from coordinator.transport.mcp.server import SdkApps, ServerFactory, build_server, server_info
from coordinator.transport.rounds import Rounds
from coordinator.transport.rounds.sealing import Seals


@dataclass(frozen=True)
class Parts:
    """What the composition of a process gives its front-end; and what is made of that, once, for both of its paths.

    Raises:
        EndpointError: (from ``endpoints``) the configured toolsets cannot be served together.
        ContractError: (from ``endpoints``) a tool's contract cannot be published.
    """

    settings: Settings
    """Those of the start."""
    store: Pingable
    """Used for readiness only; already open."""
    toolsets: Mapping[str, Toolset]
    """By name, in the order in which combinations list their tools."""
    _: KW_ONLY
    authenticator: Authenticator
    render_metrics: Callable[[], bytes] = bytes
    """Returns the body of /metrics; called in a thread."""
    config: Callable[[], Mapping[str, Any]] = dict
    """What /readyz says about the configuration in force; called for each answer."""
    identity: Callable[[], Mapping[str, Any]] = dict
    """What /readyz says about the verification of actors; called for each answer."""
    server_factory: ServerFactory = build_server
    """Makes the SDK's server for an endpoint."""
    fast: bool = True
    """False sends every call to the SDK's server, which gives the same answers."""
    process: str = ""
    """The process's name within the fleet, shown by /readyz."""
    admission: Admission | ShardedAdmission | None = None
    """Sheds calls under overload; None: all are admitted."""
    hints: Hints | None = None
    """Adds hints about the project to reads; None: no hints."""
    reader: FeedReader | None = None
    """Reads what the change feed gives to listeners; None: there is no feed."""
    seals: Seals | None = None
    """Seals what clients keep; None: nothing is asked of the people behind them."""
    delegations: Delegations | None = None
    """Reads tokens for claims; None: there are none."""

    @cached_property
    def endpoints(self) -> Endpoints:
        """What is served where, and which projects there are."""
        stated = self.settings
        return Endpoints(self.toolsets, stated.toolsets, stated.tool_name_style, stated.output_schemas, stated.projects)

    @cached_property
    def gate(self) -> Gate:
        return self._gate(self.settings.host, self.settings.allowed_origins)

    def _gate(self, host: str, origins: Sequence[str] = ()) -> Gate:
        own = [urlsplit(url) for url in (self.settings.auth.resource, self.settings.console.public_url) if url]
        names = [parts.hostname for parts in own if parts.hostname]
        # A proxy may put another host in the place of the public one, but leaves the origin as it is.
        origins = (*origins, *(f"{parts.scheme}://{parts.netloc}" for parts in own))
        return Gate(self.settings.allowed_hosts, origins, host, names)

    @cached_property
    def cors(self) -> Cors:
        return Cors(self.settings.allowed_origins)

    @cached_property
    def bodies(self) -> Bodies:
        return Bodies(self.settings.max_body_bytes)

    @cached_property
    def calls(self) -> Calls:
        rounds = Rounds(self.seals, self.authenticator.rights) if self.seals is not None else None
        stated = self.settings
        return Calls(stated.request_deadline_ms, self.admission, stated.longest_wait_ms, self.hints, rounds)

    @cached_property
    def listening(self) -> Listening | None:
        return None if self.reader is None else Listening(self.reader, self.settings.feed)

    @cached_property
    def sdk(self) -> SdkApps:
        return SdkApps(self.calls, self.settings.max_body_bytes, self.server_factory, self.listening)

    @cached_property
    def health(self) -> Health:
        return Health(
            self.store,
            self.render_metrics,
            config=self.config,
            identity=self.identity,
            auth=self.authenticator.report,
            process=self.process,
        )

    @cached_property
    def probes(self) -> tuple[str, ...]:
        """The paths of ``health`` on the port of clients."""
        return tuple(sorted(PROBES_OF_CLIENTS if self.settings.admin_port else PROBES))

    @cached_property
    def authorization(self) -> Authorization:
        """Who may call what."""
        longest_token = self.settings.max_header_bytes // 8
        return Authorization(self.authenticator, self.endpoints, longest_token, self.delegations)

    @cached_property
    def admin(self) -> AdminApp:
        """The application of the operators' port."""
        return AdminApp(self.health, self._gate(self.settings.admin_host or self.settings.host))

    @cached_property
    def fast_path(self) -> FastPath:
        return FastPath(
            self.endpoints,
            self.gate,
            self.cors,
            server_info(),
            max_body=self.settings.max_body_bytes,
            max_head=self.settings.max_header_bytes,
            max_depth=self.settings.max_json_depth,
        )

    @cached_property
    def feed(self) -> Feed | None:
        if self.reader is None:
            return None
        limits, longest = self.settings.feed, self.settings.longest_wait_ms
        return Feed(self.reader, self.endpoints, self.authorization, self.admission, limits, longest, self.hints)

    @cached_property
    def welcome(self) -> Welcome:
        """Knows where clients find this server; the page at ``/``."""
        return Welcome(
            self.settings.auth.resource,
            () if self.authorization.enabled else self.endpoints.names,
            not self.authorization.anonymous,
            self.probes,
        )
