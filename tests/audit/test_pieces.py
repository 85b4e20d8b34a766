"""Pieces of sessions reach processes together, all of them and in order, and nobody waits for what is not wanted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.tuning.pieces import EVENTS_PER_BATCH, ProcessWorkers, SessionPiece, gather_pieces, hold_back_interrupts


def prepare_endless_work(_log: Any, begun: int, here: int) -> Any:
    """Return work that tells a process by a signal that it began, and never ends."""

    def work(_piece: SessionPiece) -> None:
        os.kill(here, begun)
        threading.Event().wait()

    return work


@given(st.lists(st.integers(1, 2 * EVENTS_PER_BATCH)))
def test_gathered_pieces_are_all_pieces_in_order_and_no_more_together_than_are_worth_sending(
    lengths: list[int],
) -> None:
    pieces = [SessionPiece(str(number), 0, length, ()) for number, length in enumerate(lengths)]
    gathered = list(gather_pieces(iter(pieces)))
    assert [piece for some in gathered for piece in some] == pieces
    assert all(sum(piece.count_events() for piece in some[:-1]) < EVENTS_PER_BATCH for some in gathered)
    assert all(sum(piece.count_events() for piece in some) >= EVENTS_PER_BATCH for some in gathered[:-1])


def test_ctrl_c_waits_for_no_piece_that_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # where a new process finds the work
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    prepare = partial(prepare_endless_work, begun=signal.SIGUSR1, here=os.getpid())
    try:
        with closing(SqliteLog(tmp_path / "events.db")) as log, pytest.raises(KeyboardInterrupt):
            list(ProcessWorkers(1).work([SessionPiece("s", 0, 1, ())], log, prepare))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert active_children() == []


def test_a_process_that_begins_while_interrupts_are_held_back_never_sees_one() -> None:
    script = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('goes on')"
    with hold_back_interrupts():
        run = subprocess.run([sys.executable, "-Ic", script], stdout=subprocess.PIPE, text=True)
    assert (run.returncode, run.stdout) == (0, "goes on\n")
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
