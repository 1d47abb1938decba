"""``vidload config``: the schema, and what a file says."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from typer.testing import CliRunner

from vidload.cli.app import app


def test_schema_is_that_of_the_models() -> None:
    from vidload.config.models import Config

    result = CliRunner().invoke(app, ["config", "schema"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == Config.model_json_schema()


def test_show_prints_what_is_set_as_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("dataset: {index: a, clips: {type: random, fps: 8}, size: [8, 9]}\nloader: {epochs: 3}\n")
    result = CliRunner().invoke(app, ["config", "show", str(path), "--set", "loader.shuffle=true"])
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout) == {
        "dataset": {"index": str(tmp_path / "a"), "clips": {"type": "random", "fps": 8.0}, "size": [8, 9]},
        "loader": {"epochs": 3, "shuffle": True},
    }
