"""Figures for TensorBoard and Prometheus."""

from __future__ import annotations

import sys
import urllib.request
from typing import Any

import pytest

from tests.loader.datasets import Numbers
from vidload import VideoLoader
from vidload.errors import ArgumentError
from vidload.report.exporters import add_scalars, serve_prometheus


class Writer:
    def __init__(self) -> None:
        self.scalars: dict[str, tuple[float, int | None]] = {}

    def add_scalar(self, tag: str, scalar_value: float, global_step: int | None = None) -> None:
        self.scalars[tag] = (scalar_value, global_step)


@pytest.fixture
def loader() -> Any:
    with VideoLoader(Numbers(8), 2, num_workers=1, worker_kind="thread", epochs=1) as loader:
        list(loader)
        yield loader


def test_scalars_have_all_numbers(loader: VideoLoader) -> None:
    writer = Writer()
    add_scalars(loader, writer, 7)
    assert writer.scalars["vidload/samples"] == (8.0, 7)
    assert writer.scalars["vidload/stages/wait/count"] == (4.0, 7)
    assert "vidload/advice" not in writer.scalars
    add_scalars(loader, writer, 8, prefix="train")
    assert writer.scalars["train/batches"] == (4.0, 8)


def test_prometheus_is_served_what_there_is(loader: VideoLoader) -> None:
    pytest.importorskip("prometheus_client")
    server = serve_prometheus(loader, 0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        assert "vidload_samples_total 8.0" in lines
        assert 'vidload_stage_spans_total{stage="wait"} 4.0' in lines
        assert any(line.startswith("vidload_starved ") for line in lines)
        with pytest.raises(ArgumentError, match=r"port=\d+: Address already in use"):
            serve_prometheus(loader, server.server_port)
    finally:
        server.shutdown()
        server.server_close()


def test_without_prometheus_that_is_said(loader: VideoLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ArgumentError, match=r"pip install 'vidload\[prometheus\]'"):
        serve_prometheus(loader, 0)
