"""The section ``tracing``: where spans go, if anywhere."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from coordinator.settings.setting import setting


class Tracing(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """OpenTelemetry, for every process that answers calls or executes steps."""

    endpoint: Annotated[
        str,
        setting(
            "Collector that spans of tool calls, scripts and steps are sent to, by OTLP over HTTP: "
            "http://collector:4318 (/v1/traces is added where there is no path). Empty: nothing is traced. Needs "
            "the extra 'tracing' (pip install 'fleet-coordinator[tracing]'). Headers, certificates and compression "
            "come from the environment: OTEL_EXPORTER_OTLP_HEADERS and so on.",
            pattern=r"^(https?://[^\s@]+)?\Z",
            allowed="empty, or an http:// or https:// URL without a password",
        ),
    ] = ""
    sample_ratio: Annotated[
        float,
        setting(
            "Share of the traces begun here that are recorded. For calls that come with a trace context, that "
            "context decides.",
            ge=0,
            le=1,
        ),
    ] = 1.0
