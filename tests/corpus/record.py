"""Recording the corpus: `python -m tests.corpus.record`, by hand, from the root of a checkout.

Without options it runs all tests and `stories.py` (minutes), keeps the log of every session they make, chooses few that
together hold everything any of them holds, damages two of them, and writes what the readings give: the dear ones only
where they show something no other recording does. `--from FOLDER` chooses from what an earlier run left in FOLDER.
`--add TESTS` runs only these and adds recordings of what no recording shows yet; those that are there stay.
`--expect` only reads the recordings that are there and writes what the readings give now; that is what to run after a
change that is meant to alter a reading, and `git diff expected.txt` shows which.

A recording is made once and stays: logs of today must be readable later. Only `--expect` is run again. Record in a
folder whose path says nothing of a machine or a person: the checkout's own path, too, may stand in what is recorded.
"""

from __future__ import annotations

import argparse
import re
import socket
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.corpus import archive
from tests.corpus.archive import Recorded, recording_of
from tests.corpus.covering import Feature, choose, features_of, rows_of, without_free_words
from tests.corpus.damage import damaged, forge_sandboxed
from tests.corpus.harvest import Found, blobs_in, logs_in, run_tests
from tests.corpus.log import Log, canonical
from tests.corpus.readings import READINGS, read_damage

WORK = Path("/tmp/foregate-corpus/recording")
LARGEST = 150_000
"""Bytes of the text of one recording at most; everything a larger one holds is in smaller ones."""
DEAR = (
    *("what_if_default", "what_if_classic", "what_if_changed", "explain_decisions"),
    *("export_masked", "export_bare_atif", "export_bare_sao", "project_bare_spans"),
)
"""Readings that take long, for each judges many times or writes much."""
COMMANDED = 4
"""Logs that are also read by the command line, each from a file of its own."""
Expected = Mapping[str, Mapping[str, str]]
"""By recording and by reading the text."""
_HASH = re.compile("[0-9a-f]{64}")


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.record", description=__doc__)
    parser.add_argument("--expect", action="store_true", help="only write what the readings give now")
    parser.add_argument("--from", dest="folder", type=Path, help="choose from what an earlier run left in FOLDER")
    parser.add_argument("--add", nargs="+", metavar="TESTS", help="add what these tests show and no recording does")
    options = parser.parse_args()
    if options.add:
        WORK.mkdir(parents=True)
        run_tests(WORK, options.add)
        found = {**archive.read_expected(), **dict(expect(dict.fromkeys(add(WORK), READINGS)))}
    elif not options.expect:
        folder = options.folder or WORK
        if options.folder is None:
            folder.mkdir(parents=True)
            run_tests(folder, ["tests", "tests/corpus/stories.py", "--ignore=tests/corpus/test_corpus.py"])
        record(folder)
        found = thinned(dict(expect(all_readings())))
    else:
        found = dict(expect({**all_readings(), **archive.read_expected()}))
    archive.write_expected(found)


def all_readings() -> dict[str, Mapping[str, object]]:
    """Return every reading for each recording and each damaged log."""
    return dict.fromkeys([*archive.read_sessions(), *archive.read_damaged()], READINGS)


def expect(wanted: Mapping[str, Mapping[str, object]]) -> Iterable[tuple[str, dict[str, str]]]:
    """Yield for each recording and each damaged log that is `wanted` what those readings of it give."""
    for name, found in archive.read_sessions().items():
        if name in wanted:
            log = Log(found)
            yield name, {reading: READINGS[reading](log) for reading in READINGS if reading in wanted[name]}
    for name, found in archive.read_damaged().items():
        if name in wanted:
            yield name, {"damage": read_damage(Log(found))}


def thinned(every: dict[str, dict[str, str]]) -> Expected:
    """Return the expected texts, the dear ones only of recordings that together show all that any of them shows."""
    spared = {*every} - {*sorted(every)[:: max(1, len(every) // COMMANDED)]}
    for name in spared:
        every[name].pop("run_commands", None)
    for reading in DEAR:
        names = [name for name, texts in every.items() if reading in texts]
        features = [rows_of(every[name][reading]) for name in names]
        chosen, _ = choose(features, [len(every[name][reading]) for name in names], lambda place: True)
        for place in {*range(len(names))} - {*chosen}:
            del every[names[place]][reading]
    return every


def record(folder: Path) -> None:
    """Choose among the logs below `folder` and write the recordings, the damaged ones, and the bytes referred to."""
    blobs = blobs_in(folder)
    archive.write_blobs(blobs)
    every = [found for found in logs_in(folder) if _is_neutral(found, folder) and _size(found) < LARGEST]
    known = [(found, features) for found in every if (features := _features(found))]
    every_feature = without_free_words([features for _, features in known])
    chosen, left = choose(every_feature, [_size(found) for found, _ in known], lambda place: _is_sound(known[place][0]))
    for feature in sorted(map(str, left)):
        sys.stderr.write(f"left out: {feature}\n")
    names = Counter[str]()
    recordings = [_named(known[place][0], names) for place in sorted(chosen)]
    text = "".join(text for one in recordings for rows in one.sessions.values() for _, text, _ in rows)
    archive.write_sessions(recordings)
    archive.write_blobs({name: blobs[name] for name in sorted(set(_HASH.findall(text)) & blobs.keys())})
    archive.read_sessions.cache_clear()
    archive.read_blobs.cache_clear()
    damage(recordings)


def add(folder: Path) -> set[str]:
    """Add to the recordings logs below `folder` that show something new; return the names of what is new."""
    broken = {**archive.read_damaged()}
    blobs, known, before = blobs_in(folder), {**archive.read_blobs()}, {**archive.read_sessions()}
    archive.write_blobs({**known, **blobs})
    archive.read_blobs.cache_clear()
    shown = set[Feature]().union(*(features_of(_texts_of(one), "") for one in before.values()))
    every = [found for found in logs_in(folder) if _is_neutral(found, folder) and _size(found) < LARGEST]
    features = without_free_words([_features(found) for found in every])
    chosen, _ = choose([one - shown for one in features], [_size(one) for one in every], lambda n: _is_sound(every[n]))
    names = Counter(before)
    new = [_named(every[place], names) for place in sorted(chosen)]
    archive.write_sessions([*before.values(), *new])
    text = "".join(text for one in new for texts in _texts_of(one) for text in texts)
    kept = {name: blobs[name] for name in sorted(set(_HASH.findall(text)) & blobs.keys())}
    archive.write_blobs({**known, **kept})
    sandboxed = _fitting([*before.values(), *new], *_SANDBOXED)
    worse = [one for one in forge_sandboxed(sandboxed, canonical) if one.name not in broken]
    archive.write_damaged([*broken.values(), *worse])
    for read in (archive.read_sessions, archive.read_blobs, archive.read_damaged):
        read.cache_clear()
    return {one.name for one in [*new, *worse]}


def _texts_of(recorded: Recorded) -> list[list[str]]:
    return [[text for _, text, _ in rows] for rows in recorded.sessions.values()]


def damage(recordings: Sequence[Recorded]) -> None:
    """Write damaged logs made of three recordings."""
    fitting = (_fitting(recordings, *wanted) for wanted in (_PLAIN, _EARLY, _SANDBOXED))
    archive.write_damaged(damaged(*fitting, canonical))
    archive.read_damaged.cache_clear()


_PLAIN = ('"kind":"call_answered"', '"kind":"need_answered"', '"class":"at_most_once"', '"code":"narration_required"')
_SANDBOXED = ('"kind":"sandbox_ended"', '"applies":')
_EARLY = ('"early":true', '"look":')


def _fitting(recordings: Sequence[Recorded], *wanted: str) -> Recorded:
    """Return the shortest recording of one session that holds all of these texts."""
    fitting = [
        (sum(len(text) for _, text, _ in rows), one.name, one)
        for one in recordings
        for rows in one.sessions.values()
        if len(one.sessions) == 1 and all(any(word in text for _, text, _ in rows) for word in wanted)
    ]
    return min(fitting)[2]


def _features(found: Found) -> set[Feature]:
    """Return the features of a log, none for one whose lines a test made up."""
    file, _, test = found.test.partition("::")
    try:
        return features_of(found.sessions.values(), file if test else "on disk")
    except (ValueError, LookupError, TypeError, AttributeError):
        return set()


def _is_sound(found: Found) -> bool:
    """Whether a log verifies and everything can be read off it."""
    log = Log(recording_of("candidate", _lines(found)))
    try:
        texts = [read(log) for reading, read in READINGS.items() if reading not in DEAR]
    except Exception as error:
        sys.stderr.write(f"not taken: {found.test}: {type(error).__name__}: {str(error)[:200]}\n")
        return False
    return '"defects"' not in texts[0]


def _is_neutral(found: Found, folder: Path) -> bool:
    """Whether a log says nothing of the machine and the person it was recorded on."""
    hidden = [str(Path.home()), sys.base_prefix, "/home/", "/Users/"]
    if not archive.HERE.is_relative_to(folder.parent):
        hidden.append(str(archive.HERE.parents[1]))
    whole = "\n".join(text for texts in found.sessions.values() for text in texts)
    host = re.search(rf"\b{re.escape(socket.gethostname())}\b", whole)  # its name may be part of a word
    return not host and not any(word in whole for word in hidden if len(word) > 1)


def _named(found: Found, names: Counter[str]) -> Recorded:
    """Return the recording of a log, named by the test that made it."""
    file, _, test = found.test.removeprefix("tests/").rpartition("::")
    words = re.sub("[^a-z0-9]+", "-", f"{Path(file).stem} {test}".lower()).strip("-")
    words = words.removeprefix("test-").replace("-test-", ".", 1)[:60].strip("-.")
    names[words] += 1
    name = words if names[words] == 1 else f"{words}-{names[words]}"
    return recording_of(name, _lines(found))


def _lines(found: Found) -> list[bytes]:
    return [text.encode("utf-8", "surrogatepass") for texts in found.sessions.values() for text in texts]


def _size(found: Found) -> int:
    return sum(len(text) for texts in found.sessions.values() for text in texts)


if __name__ == "__main__":
    main()
