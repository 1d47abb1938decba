"""A loader's figures for TensorBoard and Prometheus; both optional."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from vidload.errors import ArgumentError

__all__ = ["add_scalars", "serve_prometheus"]

_GAUGES = ("starved", "backpressure", "first_batch", "num_workers", "seconds")


class _Loader(Protocol):
    def stats(self) -> dict[str, Any]: ...


class _Writer(Protocol):
    def add_scalar(self, tag: str, scalar_value: float, global_step: int | None = None) -> Any: ...


def add_scalars(loader: _Loader, writer: _Writer, step: int, prefix: str = "vidload") -> None:
    """Write a loader's figures as scalars, once.

    Args:
        loader: A `vidload.VideoLoader`.
        writer: ``torch.utils.tensorboard.SummaryWriter``, or what has its ``add_scalar``.
        step: The step that they are of.
        prefix: The tags' first part.
    """
    for name, value in _flat(loader.stats()):
        writer.add_scalar(f"{prefix}/{name}", value, step)


def serve_prometheus(loader: _Loader, port: int, address: str = "127.0.0.1") -> Any:
    """Serve a loader's figures as a Prometheus text endpoint, ``/metrics``, until it is shut down.

    Args:
        loader: A `vidload.VideoLoader`.
        port: 0 for any that is free.
        address: Where to listen; by default this machine alone can ask.

    Returns:
        The server: ``server_port``, ``shutdown()``. Its thread is a daemon.

    Raises:
        ArgumentError: If prometheus-client isn't installed, or the port is taken.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    except ModuleNotFoundError as error:
        raise ArgumentError("prometheus-client isn't installed: pip install 'vidload[prometheus]'") from error

    class Collector:
        def collect(self) -> Iterator[Any]:
            stats = loader.stats()
            for name, value in stats.items():
                if name in _GAUGES:
                    yield GaugeMetricFamily(f"vidload_{name}", f"vidload: {name}", value=value)
                elif isinstance(value, int):
                    yield CounterMetricFamily(f"vidload_{name}", f"vidload: {name}", value=value)
            seconds = CounterMetricFamily("vidload_stage_seconds", "Seconds spent in a stage", labels=["stage"])
            spans = CounterMetricFamily("vidload_stage_spans", "How often a stage was gone through", labels=["stage"])
            quantiles = GaugeMetricFamily("vidload_stage_quantile_seconds", "Of a stage", labels=["stage", "quantile"])
            for kind, stage in stats["stages"].items():
                seconds.add_metric([kind], stage["total"])
                spans.add_metric([kind], stage["count"])
                for quantile, value in (("0.5", stage["p50"]), ("0.95", stage["p95"]), ("0.99", stage["p99"])):
                    quantiles.add_metric([kind, quantile], value)
            yield from (seconds, spans, quantiles)

    registry = CollectorRegistry()
    registry.register(Collector())
    try:
        server, _ = start_http_server(port, address, registry)
    except OSError as error:
        raise ArgumentError(f"port={port}: {error.strerror} on {address}; choose another") from error
    return server


def _flat(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name}/")
        elif isinstance(value, (int, float)):
            yield f"{path}{name}", float(value)
