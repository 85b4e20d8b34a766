"""Whether the main job is done on the servers people have: each plays what public reports say of it, over HTTP.

`serving/servers.yaml` says what each server refuses, how it streams, how it says that a conversation is too long, that
a call is bad, or that one has to wait, and where each fact was found. A real session with the default policy reads a
file, edits it and answers: whole and streamed, resumed, after another server, once for each refusal, with a
conversation that is too long. A case ends as it must where the task is done, or where one sentence says what its row
wants a reader to learn. Each job is done twice: what an endpoint refused the first time is not tried again.

LiteLLM and llama.cpp, with a model of random weights that is written here, run for real where they are installed.

    python benchmarks/endpoints.py            all
    python benchmarks/endpoints.py NAME…      the servers whose names hold these words, each case shown
    python benchmarks/endpoints.py litellm    LiteLLM itself; `llama.cpp` likewise
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from figures import Report
from serving.cases import Ended, list_cases, play
from serving.real import PACKAGES, find_missing, play_real
from serving.row import list_facts, read_table

LEAST = 25
"""Servers in the table."""


def main(words: Sequence[str]) -> int:
    """Play all cases; return 1 where one ends as it must not."""
    rows = [row for row in read_table().values() if not words or any(word in row.name for word in words)]
    cases = [case for row in rows for case in list_cases(row)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        ends = list(pool.map(play, cases, chunksize=2))
    for end in ends:
        if end.wrong or words:
            print(f"{'wrong' if end.wrong else 'done' if end.done else 'said':6} {end.case.name}: {show(end)}")
    report = Report(
        "endpoints", "agent/models/openai", "agent/loop", "agent/session", "agent/dialects", "benchmarks/serving"
    )
    facts = sum(len(list_facts(row)) + len(row.answers.sources) for row in rows)
    report.add("servers", len(rows), "", least=None if words else LEAST, note=f"{facts} facts, each with its source")
    good, count = sum(not end.wrong for end in ends), max(1, len(ends))
    report.add("cases that end as they must", 100 * good / count, "%", least=100, note=f"{good} of {len(ends)}")
    report.add("of them by a sentence", sum(not end.done and not end.wrong for end in ends), "")
    report.add("doubled effects", sum(end.doubled for end in ends), "", most=0)
    report.add("extra requests, first time", sum(end.first for end in ends) / count, "", note="a case")
    report.add("extra requests, second time", sum(end.second for end in ends), "", most=0)
    for name in PACKAGES:
        if not words or name in words:
            report_real(report, name, shown=bool(words))
    return report.end()


def report_real(report: Report, name: str, *, shown: bool) -> None:
    """Play the cases of a real server where it is installed."""
    figure = f"{name} itself: cases that end as they must"
    if why := find_missing(name):
        report.skip(figure, why)
        return
    ends = play_real(name)
    for end in ends:
        if end.wrong or shown:
            print(f"{'wrong' if end.wrong else 'done' if end.done else 'said':6} {end.case.name}: {show(end)}")
    good = sum(not end.wrong for end in ends)
    report.add(figure, 100 * good / len(ends), "%", least=100, note=f"{good} of {len(ends)}")


def show(end: Ended) -> str:
    """Return what there is to say of an end."""
    counts = f"{end.first} and {end.second} extra requests"
    return f"{end.wrong or end.said[:200]!r} ({counts}{f'; refused: {end.refused[0][:160]}' if end.refused else ''})"


if __name__ == "__main__":
    reader = argparse.ArgumentParser()
    reader.add_argument("names", nargs="*", metavar="NAME")
    sys.exit(main(reader.parse_args().names))
