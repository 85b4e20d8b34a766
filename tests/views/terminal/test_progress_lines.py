"""Where no terminal is, long work says in lines how far it has come and when it will end."""

from __future__ import annotations

from foregate.views.terminal.progress import ProgressLines


def test_a_line_comes_every_ten_seconds_and_foretells_the_end() -> None:
    told: list[str] = []
    seconds = iter([0.0, 5.0, 10.0, 15.0, 20.0, 30.0])
    lines = ProgressLines("judging", told.append, lambda: next(seconds))
    for done in (1, 2, 3, 4, 5, 6):
        lines.tell(done, 6)
    assert told == ["judging: 3 of 6, about 15 s left", "judging: 5 of 6, about 5 s left"]


def test_further_work_is_foretold_by_itself() -> None:
    told: list[str] = []
    seconds = iter([0.0, 9.0, 100.0, 110.0])
    lines = ProgressLines("judging", told.append, lambda: next(seconds))
    for done in (1, 2, 1, 2):
        lines.tell(done, 4)
    assert told == ["judging: 2 of 4, about 20 s left"]
