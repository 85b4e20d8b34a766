"""Damaging a sound log in the ways somebody could: behind its back, and with a chain that was sealed anew."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.corpus.archive import NO_HASH, Recorded, Row, sha256

Content = dict[str, Any]
"""An event without its hash, as JSON."""
Write = Callable[[Any], bytes]
"""Writes JSON as the log does."""


def damaged(sound: Recorded, early: Recorded, sandboxed: Recorded, write: Write) -> Iterator[Recorded]:
    """Yield damaged logs, made of a session with a hold, a yes and an effect, and of others; see `forge_others`."""
    (session, rows), *_ = sound.sessions.items()
    head = sound.heads[session]

    def made(name: str, found: Sequence[Row], kept: tuple[int, str] = head) -> Recorded:
        return Recorded(name, {session: list(found)}, {session: kept})

    changed = [*rows]
    changed[4] = (rows[4][0], rows[4][1].replace("e", "a", 1), rows[4][2])
    yield made("changed byte", changed)
    yield made("changed hash", [*rows[:4], (rows[4][0], rows[4][1], sha256(b"")), *rows[5:]])
    yield made("missing event", [*rows[:4], *rows[5:]])
    yield made("missing beginning", rows[2:])
    yield made("reordered", [*rows[:4], rows[5], rows[4], *rows[6:]])
    yield made("event twice", [*rows[:5], *rows[4:]])
    yield made("renumbered", [*rows[:4], *((seq - 1, text, hash_) for seq, text, hash_ in rows[5:])])
    yield made("cut tail", rows[:-2])
    yield made("cut tail with its head", rows[:-2], (rows[-3][0], rows[-3][2]))
    yield made("empty", [])
    yield made("empty with its head", [], (0, NO_HASH))
    yield made("no json", [*rows[:4], (5, "{", sha256(b"{")), *rows[5:]])
    twice = '{"v":1,' + rows[4][1][1:]
    yield made("key twice", [*rows[:4], (5, twice, sha256(twice.encode())), *rows[5:]])
    yield from _forge(sound, _FORGERIES, write)
    yield made("written anew", list(forged(rows, _other_words, write)))
    yield from _forge(early, _OF_A_LOOK, write)
    yield from forge_sandboxed(sandboxed, write)


def forge_sandboxed(recorded: Recorded, write: Write) -> Iterator[Recorded]:
    """Yield forgeries of a session in which was applied what a sandbox changed."""
    yield from _forge(recorded, _OF_A_SANDBOX, write)


def _forge(
    recorded: Recorded, forgeries: Mapping[str, Callable[[list[Content]], object]], write: Write
) -> Iterator[Recorded]:
    (session, rows), *_ = recorded.sessions.items()
    for name, act in forgeries.items():
        found = list(forged(rows, act, write))
        yield Recorded(name, {session: found}, {session: (found[-1][0], found[-1][2])})


def forged(rows: Sequence[Row], act: Callable[[list[Content]], object], write: Write) -> Iterator[Row]:
    """Yield the rows of a log that `act` changed, numbered and chained anew so that every hash fits."""
    contents: list[Content] = [json.loads(text) for _, text, _ in rows]
    act(contents)
    prev = NO_HASH
    for seq, content in enumerate(contents, start=1):
        content.update(seq=seq, prev=prev)
        data = write(content)
        prev = sha256(data)
        yield seq, data.decode("utf-8", "surrogatepass"), prev


def _first(contents: list[Content], kind: str, **body: Any) -> Content:
    """Return the first event of a kind whose body says so."""
    return next(c for c in contents if c["kind"] == kind and all(c["body"].get(k) == v for k, v in body.items()))


def _change(contents: list[Content]) -> Content:
    """Return the start of a call that may have an effect."""
    return next(c for c in contents if c["kind"] == "tool_started" and c["body"]["class"] != "pure")


def _held(contents: list[Content]) -> Content:
    """Return the first judgement that let a call not run."""
    return next(
        c
        for c in contents
        if c["kind"] == "turn_judged" and any(v["standing"] != "allow" for v in c["body"]["judgement"]["verdicts"])
    )


def _let_go(contents: list[Content]) -> None:
    for verdict in _held(contents)["body"]["judgement"]["verdicts"]:
        verdict["standing"] = "allow"


def _let_go_without_rulings(contents: list[Content]) -> None:
    judgement = _held(contents)["body"]["judgement"]
    _let_go(contents)
    for decision in judgement["decisions"]:
        decision.pop("rulings", None)


def _other_words(contents: list[Content]) -> None:
    _first(contents, "user_message")["body"]["text"] = "do something else"


def _of_other_version(contents: list[Content]) -> None:
    contents[4]["v"] = 2


def _without_answer(contents: list[Content]) -> None:
    contents.remove(_first(contents, "call_answered"))


def _twice(kind: str) -> Callable[[list[Content]], None]:
    def act(contents: list[Content]) -> None:
        event = _first(contents, kind)
        contents.insert(contents.index(event) + 1, copy.deepcopy(event))

    return act


def _moved_up(contents: list[Content]) -> None:
    event = _first(contents, "tool_finished")
    contents.remove(event)
    contents.insert(3, event)


def _surveys_changed(contents: list[Content]) -> None:
    _held(contents)["body"]["turn"]["surveys"] = []


def _resolved(contents: list[Content]) -> None:
    body = {"call": _change(contents)["body"]["call"], "tool": "t", "target": "", "outcome": "done"}
    contents.insert(-1, {**copy.deepcopy(contents[-1]), "kind": "outcome_resolved", "body": body})


def _look_serves_twice(contents: list[Content]) -> None:
    """Let the answer from a look be given a second time."""
    begun = next(c for c in contents if c["kind"] == "tool_started" and "look" in c["body"])
    ended = next(c for c in contents if c["kind"] == "tool_finished" and "look" in c["body"])
    place = contents.index(ended) + 1
    contents[place:place] = [copy.deepcopy(begun), copy.deepcopy(ended)]


def _applying(contents: list[Content]) -> Content:
    """Return the start of applying what a sandbox changed."""
    return next(c for c in contents if c["kind"] == "tool_started" and "applies" in c["body"])


def _applied_twice(contents: list[Content]) -> None:
    event = _applying(contents)
    contents.insert(contents.index(event) + 1, copy.deepcopy(event))


def _answered_from_look(contents: list[Content]) -> Content:
    return next(c for c in contents if c["kind"] == "tool_finished" and "look" in c["body"])


_FORGERIES: dict[str, Callable[[list[Content]], object]] = {
    "forged permit": lambda contents: _change(contents)["body"]["permit"].update(judged=1),
    "forged permit digest": lambda contents: _change(contents)["body"]["permit"].update(digest=NO_HASH),
    "permit used twice": _twice("tool_started"),
    "allowed against a ruling": _let_go,
    "allowed with the rulings taken out": _let_go_without_rulings,
    "forged early mark": lambda contents: _change(contents)["body"].update(early=True),
    "forged look": lambda contents: _change(contents)["body"].update(look=3),
    "forged early judgement": lambda contents: _held(contents)["body"].update(early=True),
    "other response": lambda contents: _held(contents)["body"]["turn"].update(response=1),
    "other survey": _surveys_changed,
    "other session": lambda contents: contents[4].update(session="other"),
    "other count": lambda contents: contents[-1].update(kind="session_ended", body={"events": 1}),
    "no answer": _without_answer,
    "answered twice": _twice("call_answered"),
    "ended before it started": _moved_up,
    "resolved without a question": _resolved,
    "unknown kind": lambda contents: contents[4].update(kind="frobnicated"),
    "unknown field": lambda contents: contents[4].update(extra=1),
    "missing field": lambda contents: contents[4].pop("actor"),
    "unknown field of a body": lambda contents: _held(contents)["body"].update(extra=1),
    "unknown field of a turn": lambda contents: _held(contents)["body"]["turn"].update(extra=1),
    "missing field of a body": lambda contents: _change(contents)["body"].pop("permit"),
    "another type in a body": lambda contents: _held(contents)["body"].update(judgement=[]),
    "body that is a list": lambda contents: contents[4].update(body=[]),
    "other version": _of_other_version,
}
_OF_A_LOOK: dict[str, Callable[[list[Content]], object]] = {
    "look with another output": lambda contents: _answered_from_look(contents)["body"].update(content="forged"),
    "look that serves twice": _look_serves_twice,
    "look whose early mark is taken out": lambda contents: _first(contents, "tool_started", early=True)["body"].pop(
        "early"
    ),
    "look judged as no early one": lambda contents: _first(contents, "turn_judged", early=True)["body"].pop("early"),
}
_OF_A_SANDBOX: dict[str, Callable[[list[Content]], object]] = {
    "applied without a sandbox": lambda contents: contents.remove(_first(contents, "sandbox_ended")),
    "applied from another sandbox": lambda contents: _applying(contents)["body"].update(applies=2),
    "applied twice": _applied_twice,
    "applied as if it ran in place": lambda contents: _applying(contents)["body"].pop("applies"),
    "sandbox without a start": lambda contents: contents.remove(_first(contents, "tool_started")),
    "sandbox that ended twice": _twice("sandbox_ended"),
}
