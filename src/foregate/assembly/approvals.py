"""The questions to a person that are open in all sessions of a home, and answering them from anywhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from foregate.assembly.home import Home, find_session
from foregate.schemas import strict_json
from foregate.schemas.errors import UsageError
from foregate.schemas.protocols import Blobs, Log, Reply
from foregate.schemas.strict_json import Json, as_object, get_list, get_text

if TYPE_CHECKING:
    from foregate.agent.loop.undo import Preview
    from foregate.agent.session.answering import Delivery
    from foregate.agent.session.session_log import Clock
    from foregate.schemas.identity import Identity
    from foregate.schemas.question import Question


class Approvals:
    """The open questions of the home, or of a log and its blobs. Neither the process that asked nor its tools, its
    model or its workspace is needed to read or answer one.

    Use it as a context manager, or close it when done.

        with foregate.Approvals() as approvals:
            for question in await approvals.list():
                await approvals.answer(question.name, foregate.Reply("yes", by="ann@example.org"))
    """

    def __init__(
        self, log: Log | None = None, blobs: Blobs | None = None, *, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._resources = ExitStack()
        if log is None:
            log = own = Home.open(environ).open_log()
            self._resources.callback(own.close)
        self._log, self._blobs = log, blobs if blobs is not None else Home.open(environ).open_blobs()
        self._environ = environ

    async def list(self) -> list[Question]:
        """Return what is open, by session."""
        from foregate.telemetry.queries.questions import list_questions

        return await list_questions(self._log, self._blobs)

    async def show(self, name: str) -> Question:
        """Return an open question by its name, `SESSION:SEQ`, or by its session; the session's log is verified.

        Raises UsageError for a name of none, or of one that is closed, and TamperedLog where the log does not verify.
        """
        from foregate.telemetry.queries.questions import find_question, split_name

        wanted, seq = split_name(name)
        session = await find_session(self._log, wanted)
        open_ = {one.session: one for one in await self.list()} if not seq else {}
        children = [one for one in open_ if one.startswith(f"{session}.")]
        if session not in open_ and children:
            if len(children) > 1:
                named = ", ".join(open_[one].name for one in children)
                raise UsageError(f"{len(children)} tasks of session `{session}` ask; name one of {named}")
            # A task it handed on asks in its place.
            session = children[0]
        return await find_question(self._log, self._blobs, session, seq)

    async def describe(self, question: Question) -> dict[str, Json]:
        """Return what a list says of a question."""
        from foregate.agent.session.session_log import utc_now

        need, keys = question.need, ("call", "tool", "target", "effect")
        calls = [as_object(call) for call in get_list(need.request, "calls")] if "calls" in need.request else []
        return {
            "question": question.name,
            "session": question.session,
            "event": question.asked.seq,
            "gate": need.gate,
            "code": need.code,
            "asks": question.problem or get_text(need.request, "question", "") or "May this run?",
            "calls": [{key: str(call.get(key, "")) for key in keys} for call in calls],
            "asked_at": question.asked.time,
            "expires_at": need.expires_at,
            "expired": question.is_expired(utc_now()),
            "answered_by": question.given.by or "somebody" if question.given is not None else "",
            "held_by": await self.find_holder(question),
            "run_by": strict_json.dump(by) if (by := await self.find_runner(question)) is not None else None,
        }

    def read_previews(self, question: Question) -> Mapping[str, Preview]:
        """Return what the calls of a question would change, by their ids, as it was when it was asked."""
        from foregate.agent.loop.undo import decode_previews

        return decode_previews(self._blobs.get(question.previews)) if question.previews else {}

    async def answer(self, question: Question | str, reply: Reply, *, clock: Clock | None = None) -> Delivery:
        """Answer a question durably, in the name of `reply.by`, whom the caller has authenticated.

        Returns `recorded` where the answer is in the session's log, `taken` where the process that asks has taken it,
        and `waiting` where it is kept for that process. The first answer counts: raises UsageError, one sentence, for
        a second one, and for one that is too late or none to what is asked; then nothing happens.
        """
        from foregate.agent.session.answering import answer_question
        from foregate.agent.session.session_log import utc_now
        from foregate.assembly.identity import find_identity

        named = question if isinstance(question, str) else question.name
        runs, found, clock = find_identity("program"), await self.show(named), clock or utc_now
        delivery = await answer_question(self._log, found, reply, clock, runs)
        # A process that took it keeps this itself.
        if reply.declared and delivery == "recorded":
            await self._keep_declared(found, reply, clock())
        return delivery

    async def _keep_declared(self, question: Question, reply: Reply, at: str) -> None:
        """Keep which fields of a tool's results are own, as an answer says; raise WorkspaceError where nothing can."""
        from foregate.evidence.state.recorded_turns import LAYING, InForce
        from foregate.gates.support.declaring import collect_declared
        from foregate.policy.source.load import restore_policy
        from foregate.schemas.tool_spec import build_catalogue

        policy, tools = InForce.of(await self._log.read(question.session, kinds=LAYING)).require()
        catalogue, by = build_catalogue(tools), reply.person.user if reply.person is not None else reply.by
        about = question.need.request, at, by, catalogue, restore_policy(dict(policy))
        Home.open(self._environ).open_declarations().keep(collect_declared(reply.value, *about), catalogue)

    async def find_holder(self, question: Question) -> str:
        """Return which live process holds the session that asks, "" for none."""
        from foregate.schemas.protocols import QuestionStore

        return await self._log.find_holder(question.session) if isinstance(self._log, QuestionStore) else ""

    async def find_runner(self, question: Question) -> Identity | None:
        """Return who began the session that asks, None where its log does not say."""
        from foregate.schemas.event_body import SessionStarted

        for first in await self._log.read(question.session, limit=1):
            if isinstance(first.body, SessionStarted):
                return first.body.by
        return None

    def close(self) -> None:
        """Let go of the log, where it was opened here."""
        self._resources.close()

    def __enter__(self) -> Approvals:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
