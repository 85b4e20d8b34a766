"""The questions to a person that are open, read from the logs of their sessions and from nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import cast

from msgspec.structs import replace

from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, InvalidJson, LogError, TamperedLog, UsageError
from foregate.schemas.event import Event
from foregate.schemas.protocols import Blobs, Log, QuestionStore, Readable
from foregate.schemas.question import AskedQuestion, PendingAnswer, Question, describe_end, follow_question
from foregate.schemas.strict_json import Json, as_object
from foregate.telemetry.log import chain


def split_name(name: str) -> tuple[str, int]:
    """Return the session and the event a question's name holds; 0 where it is a bare session.

    >>> split_name("20261121-064512-ab3f:17"), split_name("20261121-064512-ab3f")
    (('20261121-064512-ab3f', 17), ('20261121-064512-ab3f', 0))
    """
    session, colon, seq = name.rpartition(":")
    if not colon:
        return name, 0
    if not session or not (seq.isascii() and seq.isdigit()) or len(seq) > 18 or int(seq) == 0:
        raise UsageError(f"`{name[:80]}` names no question; `foregate approvals list` prints names such as SESSION:17")
    return session, int(seq)


async def list_questions(log: Log, blobs: Blobs) -> list[Question]:
    """Return what is open in the sessions of a log, by session. Read are only those that may wait, from there on."""
    found = []
    if isinstance(log, QuestionStore):
        places = await log.list_asked()
    else:
        places = [(session, 1) for session in sorted(await log.sessions())]
    for session, seq in places:
        open_ = None
        for event in await log.read(session, after=seq - 1):
            open_ = follow_question(open_, event)
        if open_ is not None:
            found.append(await _build(log, blobs, session, open_))
    return found


async def find_question(log: Log, blobs: Blobs, session: str, seq: int = 0) -> Question:
    """Return the open question of a session, its log verified on the way; `seq` names the event that asks it.

    Raises UsageError, one sentence, where none is open, or another one; TamperedLog where the log does not verify.
    """
    asked: AskedQuestion | None = None
    open_: AskedQuestion | None = None
    ended = ""
    async for event in _verify(log, session):
        before, open_ = open_, follow_question(open_, event)
        if seq in (0, event.seq) and open_ is not None and open_.seq == event.seq:
            asked, ended = open_, ""
        elif asked is not None and before is asked and open_ is not asked:
            ended = describe_end(f"{session}:{asked.seq}", event)
    if asked is None:
        what = f"event {seq} of session `{session}` asks no person" if seq else f"session `{session}` asks nobody"
        raise UsageError(f"{what} anything; `foregate approvals list` names what is open")
    if open_ is None or open_.seq != asked.seq:
        raise UsageError(ended)
    found = await _build(log, blobs, session, asked)
    if found.problem:
        raise LogError(f"what `{found.name}` asks cannot be read ({found.problem}); it can be cancelled in the chat")
    return found


async def _verify(log: Log, session: str) -> AsyncIterator[Event]:
    """Yield the events of a session while its chain holds, up to the head that is noted apart from them."""
    # A log of somebody else's, which is believed as it is everywhere.
    if getattr(log, "lines", None) is None:
        for event in await log.read(session):
            yield event
        return
    store = cast(Readable, log)
    noted, last = store.head_anchor(session), (0, "")
    for event in chain.verify_lines(store.lines(session), session):
        last = (event.seq, event.hash) if event.seq <= noted[0] else last
        yield event
    if last != noted and noted[0]:
        advice = "run `foregate audit verify` on it"
        raise TamperedLog(f"the log of session `{session}` does not end as was noted; {advice}", noted[0])


async def _build(log: Log, blobs: Blobs, session: str, asked: AskedQuestion) -> Question:
    """Return a question with what it asks, and the answer that waits to be taken where there is one."""
    request: Mapping[str, Json] = {}
    problem, given = "", None
    try:
        request = as_object(strict_json.parse(blobs.get(asked.raised.request).decode()))
    except (ForegateError, UnicodeDecodeError) as error:
        problem = str(error)
    if isinstance(log, QuestionStore) and (text := await log.read_handed(session, asked.seq)):
        try:
            given = PendingAnswer.of(text)
        except InvalidJson as error:
            problem = problem or str(error)
    return Question(session, asked, replace(asked.raised.need, request=request), given, problem)
