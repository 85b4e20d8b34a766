"""One session of an editor: opened or resumed, fed with prompts, and reported on as it works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from acp import RequestError
from acp.helpers import SessionUpdate, start_tool_call, update_agent_message_text
from acp.interfaces import Client
from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    RequestPermissionResponse,
    ResourceContentBlock,
    SessionMode,
    SessionModeState,
    StopReason,
    TextContentBlock,
    TextResourceContents,
)
from msgspec.structs import replace

from foregate.agent.loop.cancelling import GIVEN_UP, cancel_open_task, turn_elsewhere
from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.session.prompts import quote_material
from foregate.agent.session.result import RunResult
from foregate.agent.workspace.cancelled_work import stop_task
from foregate.assembly.open import OpenSession, open_session
from foregate.assembly.setting import SessionOptions
from foregate.cli.acp.editor_person import EditorPerson, EditorQuestion
from foregate.cli.acp.transport import INVALID_REQUEST
from foregate.cli.acp.updates import Updates, quote_own, quote_text
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Draft, Event
from foregate.schemas.event_body import PolicyChanged
from foregate.schemas.strict_json import Json, scrub
from foregate.schemas.visible import make_visible

if TYPE_CHECKING:
    from foregate.agent.session.session import Session


Block: TypeAlias = (
    TextContentBlock | ImageContentBlock | AudioContentBlock | ResourceContentBlock | EmbeddedResourceContentBlock
)
_SHOWN = 200
Mode = Literal["direct", "plan", "auto"]
MODES: dict[Mode, tuple[str, str]] = {
    "direct": ("Direct", "Every call is judged as it comes."),
    "plan": ("Plan first", "Nothing changes outside a plan you have confirmed."),
    "auto": ("Plan where needed", "A single change of a task needs no plan."),
}
"""The modes of a session, each with its name and what it means."""
FAILED = -32603
_STOPS: dict[str, StopReason] = {
    "completed": "end_turn",
    "needs_input": "end_turn",
    "paused": "end_turn",
    "budget_exhausted": "max_turn_requests",
    "blocked": "refusal",
    "cancelled": "cancelled",
}
"""Why a turn ends, by how its task stands. A task that waits for a yes and one that failed are told apart there."""
AT_WORK = "this session is at work; cancel that, or wait until it has ended"


def read_prompt(blocks: Sequence[Block], root: Path, most: int) -> str:
    """Return a prompt as one message: what was typed, and beneath it, quoted, what was linked or embedded.

    Only what was typed gives authority: nobody can tell who wrote a file, a page or its name. What is embedded may have
    `most` bytes each. Raises UsageError for what cannot be read here, and where nothing was typed.
    """
    typed: list[str] = []
    quoted: list[str] = []
    for block in blocks:
        match block:
            case TextContentBlock():
                typed.append(scrub(block.text))
            case ResourceContentBlock():
                quoted.append(f"linked: {name_resource(block.uri, root)}")
            case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
                quoted.append(quote_resource(resource, root, most))
            case EmbeddedResourceContentBlock():
                name = name_resource(block.resource.uri, root)
                raise UsageError(f"`{name}` is no text, which is all that is read here; link it instead")
            case _:
                raise UsageError(f"a prompt with {block.type} cannot be read here; send text, links or embedded text")
    text = "".join(typed)
    if not text.strip():
        raise UsageError("the message is empty; type what you want done")
    return quote_material(text, "\n\n".join(quoted))


def quote_resource(resource: TextResourceContents, root: Path, most: int) -> str:
    """Return what was embedded beneath its name; raise UsageError for more than `most` bytes."""
    name, text = name_resource(resource.uri, root), scrub(resource.text)
    if len(text.encode()) > most:
        raise UsageError(f"`{name}` is larger than {most} bytes (policy files.max_read); link it, or send a part of it")
    return f"embedded: {name}\n{text}"


def name_resource(uri: str, root: Path) -> str:
    """Return what a resource is called: a path as the tools take it where it is in the workspace, else its URI."""
    shown = make_visible(scrub(uri))
    parts = urlsplit(uri)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        path = Path(unquote(parts.path))
        if path.is_relative_to(root):
            shown = make_visible(scrub(str(path.relative_to(root))))
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


class EditorSession:
    """A session and the editor that shows it. It does one thing at a time; updates are sent in order.

    `open` comes first. `after` has something done once the editor has its next answer.
    """

    def __init__(self, setting: SessionOptions, client: Client, after: Callable[[Callable[[], None]], None]) -> None:
        self._client, self._after = client, after
        self.person = EditorPerson(self._request)
        self._setting = replace(setting, person=self.person, listeners=[self._hear], on_text=self._stream)
        self._opened: OpenSession | None = None
        self._name = setting.resume
        """What the editor calls the session: one that follows another keeps its name here."""
        self._updates: Updates | None = None
        self._queue: asyncio.Queue[SessionUpdate] = asyncio.Queue()
        self._pump = asyncio.ensure_future(self._send_updates())
        self._work: asyncio.Task[RunResult] | None = None
        self._ending: asyncio.Task[RunResult] | None = None
        """What was cancelled last."""
        self._notes: list[str] = []
        self._mode: Mode | None = None
        self._prompted: asyncio.Event | None = None
        """Set when the current prompt is answered; None without a prompt."""

    async def open(self) -> None:
        """Open the session; raises what `open_session` raises."""
        try:
            await self._open(self._setting)
        except BaseException:
            self._pump.cancel()
            raise
        self._notes = list(self.opened.notes)

    async def _open(self, setting: SessionOptions) -> None:
        self._updates = None
        self._opened = await open_session(setting)
        self._name = self._name or self._opened.name
        self._updates = self.person.updates = Updates(self.session)
        self.person.session = self.session

    @property
    def opened(self) -> OpenSession:
        """What was opened."""
        assert self._opened is not None
        return self._opened

    @property
    def session(self) -> Session:
        """The session itself."""
        return self.opened.session

    @property
    def is_at_work(self) -> bool:
        """Whether a prompt, or something that was resumed, is under way."""
        return self._work is not None or self._prompted is not None

    @property
    def modes(self) -> SessionModeState:
        """The modes there are, and the one in force."""
        known = [SessionMode(id=name, name=title, description=means) for name, (title, means) in MODES.items()]
        return SessionModeState(current_mode_id=self.session.state.mode, available_modes=known)

    async def replay(self) -> None:
        """Tell the editor what the log holds, and go on once it has the answer to what it asked for."""
        updates = Updates(self.session, replaying=True)
        for event in await self.session.log.read_joined():
            self._put(updates.add_event(event))
        await self._queue.join()
        task = self.session.state.task
        self._updates = self.person.updates = updates.become_live()
        if task is not None and task.paused != "needs_input":
            self._after(self._go_on)

    def _go_on(self) -> None:
        self._begin(run_to_outcome(self.session))

    async def prompt(self, blocks: Sequence[Block]) -> StopReason:
        """Take a prompt through to an answer, a pause or an end; return why the turn ends.

        Raises RequestError while another is at work, and where the model failed.
        """
        if self.person.is_asking and self._prompted is None:
            # It was asked again when the session was loaded; this is what came instead.
            await self._leave_question()
        if self._prompted is None and (work := self._work or self._ending) is not None:
            # What was cancelled, or resumed when the session was loaded.
            await asyncio.wait([work])
        if self.is_at_work:
            raise RequestError(INVALID_REQUEST, AT_WORK)
        text = read_prompt(blocks, self.session.workspace.root, self.session.policy.files.max_read)
        self._prompted = answered = asyncio.Event()
        try:
            work = self._begin(self._take(text))
            await asyncio.wait([work])
            outcome = RunResult("cancelled") if work.cancelled() else work.result()
            self._put(self._tell_outcome(outcome))
            await self._queue.join()
        finally:
            self._prompted = None
            answered.set()
        if outcome.status == "failed":
            raise RequestError(FAILED, f"the task failed: {make_visible(outcome.report.blocker)}")
        if outcome.status == "awaiting_approval":
            return "cancelled" if self.person.was_dismissed else "end_turn"
        return _STOPS[outcome.status]

    async def _take(self, text: str) -> RunResult:
        """Review tools that nobody has pinned, say what the person should know, and run the message."""
        if self.person.reviews and await self.person.review():
            await finish(self._reopen())
        notes, self._notes = self._notes, []
        self._put(update_agent_message_text(quote_own(note)) for note in notes)
        await self._change_mode()
        if self.session.state.waits_for_person:
            await turn_elsewhere(self.session)
            self._put([update_agent_message_text(quote_own(GIVEN_UP))])
        return await run(self.session, text)

    async def _reopen(self) -> None:
        """Open the session anew, now that tools are pinned which it was opened without."""
        name = self.opened.name
        await self.opened.close(end=False)
        await self._open(replace(self._setting, resume=name))
        self._notes = list(self.opened.notes)
        self.person.reviews.clear()

    async def cancel(self) -> None:
        """Stop what is at work; every call of it is answered. A question the editor took back goes with it."""
        if self._work is not None:
            stop_task(self._work)
            self._ending = self._work
        elif self.person.was_dismissed and self.session.state.task is not None:
            self.person.was_dismissed = False
            self._ending = self._begin(cancel_open_task(self.session))

    async def set_mode(self, mode: str) -> None:
        """Choose a mode, from the next message on where something is at work; raises UsageError for an unknown one."""
        known = next((name for name in MODES if name == mode), None)
        if known is None:
            raise UsageError(f"there is no mode `{make_visible(mode)[:40]}`; the modes are {', '.join(MODES)}")
        self._mode = known
        if self._work is None:
            await self._change_mode()

    async def _change_mode(self) -> None:
        mode, self._mode = self._mode, None
        if mode is not None and mode != self.session.state.mode:
            await self.session.record(Draft(PolicyChanged(mode=mode), "person"))

    async def close(self) -> None:
        """Leave the session so that it can be resumed: a question stays open, anything else is cancelled."""
        if self._work is not None:
            # It may be on its way, or just left.
            if self.person.is_asking or self.session.state.waits_for_person:
                self.person.leave()
            else:
                stop_task(self._work)
            await asyncio.wait([self._work])
        if self._prompted is not None:
            await self._prompted.wait()
        self._pump.cancel()
        with suppress(asyncio.CancelledError):
            await self._pump
        await self.opened.close()

    def _begin(self, steps: Coroutine[None, None, RunResult]) -> asyncio.Task[RunResult]:
        """Put the session to work."""
        self._work = work = asyncio.ensure_future(steps)
        work.add_done_callback(self._end_work)
        return work

    def _end_work(self, work: asyncio.Task[RunResult]) -> None:
        self._work = None
        if not work.cancelled() and (error := work.exception()) is not None and self._prompted is None:
            self._put([update_agent_message_text(quote_own(str(error)))])

    async def _leave_question(self) -> None:
        work = self._work
        self.person.leave()
        if work is not None:
            await asyncio.wait([work])
        self.person.come_back()

    def _tell_outcome(self, outcome: RunResult) -> Iterable[SessionUpdate]:
        """Yield what the editor has not been told yet of how a task ended: Foregate's own words."""
        report = outcome.report
        if outcome.remark:
            yield update_agent_message_text(f"\n\n{make_visible(outcome.remark)}")
        if outcome.status in ("blocked", "budget_exhausted"):
            why = f"{outcome.status.replace('_', ' ')}: {report.blocker}"
            parts = {"done": ", ".join(report.done), "needs": report.need, "next": report.next_step}
            rows = [why, *(f"{label}: {text}" for label, text in parts.items() if text)]
            told: dict[str, Json] = {"status": outcome.status, "blocker": report.blocker, "need": report.need}
            number, title = f"report-{self.session.state.seq}", make_visible(f"Foregate: {why}")
            yield start_tool_call(
                number, title, kind="other", status="completed", content=quote_text("\n".join(rows)), raw_output=told
            )
        if outcome.status in ("awaiting_approval", "paused"):
            why = f" ({self.person.problem})" if self.person.problem else ""
            left = f"a question waits for your answer{why}; load this session again, or `foregate resume"
            yield update_agent_message_text(quote_own(f"{left} {self.opened.name}` in a terminal"))

    def _hear(self, event: Event) -> None:
        if self._updates is not None:
            self._put(self._updates.add_event(event))

    def _stream(self, piece: str) -> None:
        if self._updates is not None:
            self._put(self._updates.add_text(piece))

    def _put(self, updates: Iterable[SessionUpdate]) -> None:
        for update in updates:
            self._queue.put_nowait(update)

    async def _send_updates(self) -> None:
        """Send each update in its turn; what cannot be sent is in the log all the same."""
        while True:
            update = await self._queue.get()
            try:
                with suppress(ConnectionError):
                    await self._client.session_update(self._name, update)
            finally:
                self._queue.task_done()

    async def _request(self, question: EditorQuestion) -> RequestPermissionResponse:
        await self._queue.join()
        return await self._client.request_permission(self._name, question.call, question.options)


async def finish(steps: Coroutine[None, None, None]) -> None:
    """Take steps to their end; a cancel counts only then."""
    work = asyncio.ensure_future(steps)
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await work
        raise
