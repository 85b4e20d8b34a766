"""A further look at a call whose values are looked for in earlier reads is bounded by counts, however much was read."""

from __future__ import annotations

import json

from foregate.evidence.reads import KEPT, Earlier, Reads
from foregate.schemas.turn import Said
from tests.agent.survey.values import SEND, survey
from tests.counts.counting import Count, counted

MOST_CALLS = 6_000
"""Python calls of a look where as many reads are kept as can be: about two milliseconds and a half."""
MOST_CALLS_A_RECORD = 1
"""Python calls that one record more takes: each that holds the person's words is compared with the others."""
ARGUMENTS = {"to": ["mail0x1@lake.example", "ida@harbor.example"], "body": "Hello."}


def list_rows(read: int, rows: int) -> str:
    named = [(f"{read}-{row}", f"mail{read}x{row}@lake.example") for row in range(rows)]
    return json.dumps([{"id": f"F{name}", "name": f"file {name}", "email": mail} for name, mail in named])


def count_look(reads: int, rows: int) -> int:
    """Return the calls of a second look; the first one makes what a read keeps."""
    kept = Reads()
    for read in range(reads):
        kept.add(-1000 + read, "list_files", "{}", list_rows(read, rows), "all")
    before = Earlier().follow([Said(-5, "Look.", "user")], kept, None)
    count = Count()
    survey(SEND, ARGUMENTS, "Send Ida file 3 4.", outside="p", before=before)
    with counted(count):
        survey(SEND, ARGUMENTS, "Send Ida file 3 4.", outside="p", before=before)
    return count.calls


def test_a_further_look_takes_few_calls_however_many_reads_are_kept() -> None:
    assert count_look(KEPT, 20) <= MOST_CALLS


def test_reads_beyond_those_that_are_kept_cost_nothing() -> None:
    assert count_look(4 * KEPT, 20) <= MOST_CALLS


def test_ten_times_as_many_records_cost_little_more_each() -> None:
    few, many = count_look(4, 20), count_look(4, 200)
    assert many - few <= MOST_CALLS_A_RECORD * 4 * 180
