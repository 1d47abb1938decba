from __future__ import annotations

import sys

import pytest

from vidload.index import progress
from vidload.index.progress import show_progress


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with show_progress(3, True) as advance:
        for _ in range(3):
            advance()
    out, err = capsys.readouterr()
    assert out == ""
    assert "reading videos" in err
    assert "3/3" in err


def test_a_log_gets_a_line_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    with show_progress(100, True) as advance:
        for second in range(1, 25):
            clock.now = second
            advance()
    assert capsys.readouterr() == ("", "read 10 of 100 files\nread 20 of 100 files\n")


@pytest.mark.parametrize(("total", "shown"), [(0, True), (5, False)])
def test_nothing_is_printed_where_nothing_is_read_or_wanted(
    total: int, shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with show_progress(total, shown) as advance:
        advance()
    assert capsys.readouterr() == ("", "")
