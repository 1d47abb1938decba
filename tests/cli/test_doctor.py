from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from vidload.cli.app import app
from vidload.report import doctor
from vidload.report.doctor import CHECKS, Finding

RUNNER = CliRunner()


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """What the doctor finds: no GPU, all else well; a test changes it."""
    found = [Finding(name, "ok", f"{name} is fine") for name in CHECKS if name != "cuda"]
    found.append(Finding("cuda", "missing", "no driver", "install one"))
    monkeypatch.setattr(doctor, "diagnose", lambda: found)
    return found


def test_each_check_has_a_line_and_missing_ones_are_fine(findings: list[Finding]) -> None:
    result = RUNNER.invoke(app, ["doctor"])
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == len(CHECKS)
    assert "missing cuda        no driver -- install one" in result.stdout
    assert "ok      decord      decord is fine\n" in result.stdout


def test_json_has_the_same(findings: list[Finding]) -> None:
    result = RUNNER.invoke(app, ["doctor", "--json"])
    told = json.loads(result.stdout)
    assert told["ok"] is True
    by_name = {check["name"]: check for check in told["checks"]}
    assert by_name["cuda"] == {
        "name": "cuda", "status": "missing", "detail": "no driver", "fix": "install one", "needed": False
    }  # fmt: skip
    assert by_name["pyav"]["needed"] is True


def test_what_is_required_counts(findings: list[Finding]) -> None:
    assert RUNNER.invoke(app, ["doctor", "--require", "dali"]).exit_code == 0
    assert RUNNER.invoke(app, ["doctor", "--require", "dali, cuda"]).exit_code == 1
    assert json.loads(RUNNER.invoke(app, ["doctor", "--json", "--require", "cuda"]).stdout)["ok"] is False


def test_what_is_needed_counts(findings: list[Finding]) -> None:
    findings[findings.index(Finding("pyav", "ok", "pyav is fine"))] = Finding("pyav", "broken", "it crashed")
    assert RUNNER.invoke(app, ["doctor"]).exit_code == 1


def test_an_unknown_requirement_is_refused() -> None:
    result = RUNNER.invoke(app, ["doctor", "--require", "cuda,cuddle"])
    assert result.exit_code == 1
    assert "cuddle: no such check" in str(result.exception)
