"""What all pages of a console stand on: one home, who may come in, and how a page is filled in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import jinja2
from starlette.responses import HTMLResponse

from foregate.assembly.approvals import Approvals
from foregate.assembly.home import Home, find_index_path
from foregate.assembly.identity import find_identity
from foregate.console.address import Address
from foregate.console.form import WORD, FormRefused
from foregate.console.guard import SignIn
from foregate.schemas.errors import LogError, UsageError
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.audit_index import AuditIndex
from foregate.tuning.cube import CubeView, open_cube
from foregate.views.pages.rendering import build_environment
from foregate.views.pages.texts import ConsoleLinks

PATIENCE = 2.0
"""Seconds that a page waits for an answer; after that it says how far the work is."""
_MOST = 8
"""Questions that are under way at most."""
LINKS = ConsoleLinks()
SECTIONS = (
    ("sessions", "Sessions"),
    ("decisions", "Decisions"),
    ("waiting", "Waiting"),
    ("review", "Review"),
    ("statistics", "Statistics"),
    ("policy", "Policy"),
)
"""The parts of the console, by the address they begin with and the name they are called by."""
T = TypeVar("T")


class WorkerClosed(Exception):
    """The console ends, so nobody waits for the rest."""


class TuningWorker:
    """Answers questions about keys of the policy over all sessions of a log.

    `done` of `all` pieces of work are through. Close it when done: what is under way stops at the next piece.
    """

    def __init__(self, log: SqliteLog) -> None:
        self._log = log
        self._thread = ThreadPoolExecutor(1, "foregate-tuning")
        self._jobs: dict[str, Future[Any]] = {}
        self._closing = False
        self.done, self.all = 0, 0

    async def ask(self, key: str, name: str, question: Callable[[CubeView], T]) -> T | None:
        """Return what is found in the turns at every value of a key; None where that is not known yet, ask again then.

        Questions of one `name` are one. Raises what the work raises.
        """
        job = self._jobs.get(name)
        if job is None:
            if len(self._jobs) >= _MOST:
                raise FormRefused(429, "other keys are being worked on; try again in a minute")
            sessions = await self._log.sessions()
            job = self._jobs.get(name) or self._begin(name, lambda: self._answer(key, sessions, question))
        await asyncio.to_thread(wait, [job], PATIENCE)
        return cast("T | None", job.result()) if job.done() else None

    def _begin(self, name: str, work: Callable[[], T]) -> Future[T]:
        job = self._jobs[name] = self._thread.submit(work)
        job.add_done_callback(lambda _: self._jobs.pop(name, None))
        return job

    def _answer(self, key: str, sessions: Sequence[str], question: Callable[[CubeView], T]) -> T:
        self.done, self.all = 0, 0
        with open_cube(self._log, progress=self._note) as cube:
            return question(cube.bring_up(key, sessions))

    def _note(self, done: int, count: int) -> None:
        if self._closing:
            raise WorkerClosed
        self.done, self.all = done, count

    def close(self) -> None:
        """Take no further question, and end what is under way."""
        self._closing = True
        self._thread.shutdown(cancel_futures=True)


PAUSE = 0.4
"""Seconds between two looks at the log."""
_SILENCE = 30
"""Looks without news after which a line without meaning goes out, so that a page that is gone is noticed."""
MOST = 24
"""Pages that follow at the same time."""


class Live:
    """Follows a log for open pages."""

    def __init__(self, log: SqliteLog) -> None:
        self._log = log
        self._open = 0
        self._is_ended = False

    def end(self) -> None:
        """End every stream at its next look, so that the server can end."""
        self._is_ended = True

    def build_look(self, session: str) -> Callable[[], int]:
        """Return what reads the number of a session's last event, or of all events where none is named.

        Raises Refused for a session that is not there.
        """
        if not session:
            return self._log.count_events
        try:
            self._log.head_anchor(session)
        except LogError as error:
            raise FormRefused(404, str(error)) from None
        return lambda: self._log.head_anchor(session)[0]

    async def follow(self, look: Callable[[], int], last: int) -> AsyncIterator[str]:
        """Yield server-sent events: one for each change of the number since `last`, with it as its id."""
        with self._take_place():
            yield "retry: 1500\n\n"
            silent = 0
            while not self._is_ended:
                now = await asyncio.to_thread(look)
                silent = silent + 1 if now == last else 0
                if now != last:
                    last = now
                    yield f"id: {now}\nevent: grown\ndata: {now}\n\n"
                elif silent % _SILENCE == _SILENCE - 1:
                    yield ":\n\n"
                await asyncio.sleep(PAUSE)

    @contextmanager
    def _take_place(self) -> Iterator[None]:
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    def check_room(self) -> None:
        """Raise Refused where too many pages follow already."""
        if self._open >= MOST:
            raise FormRefused(503, f"{MOST} pages follow this log already; close some, or use the link that refreshes")


class Console:
    """One home, open for its pages: no request names a file, and none reaches another home.

    `workspace` is the folder whose own policy file counts on the page of the policy. Close it when done.
    """

    def __init__(
        self,
        home: Home,
        entry: SignIn,
        address: Address,
        *,
        environ: Mapping[str, str],
        workspace: Path,
        read_only: bool = False,
    ) -> None:
        if not home.events.is_file():
            raise UsageError(f"there is no log in `{home.root}` yet; `foregate chat` begins one")
        self.home, self.entry, self.address = home, entry, address
        self.environ, self.workspace, self.read_only = environ, workspace, read_only or home.read_only
        self.log = home.open_log()
        self.blobs = home.open_blobs()
        self.approvals = Approvals(self.log, self.blobs, environ=environ)
        self.live = Live(self.log)
        self.kept, self.me = home.open_reviews(), find_identity("console")
        self.tuning = TuningWorker(self.log)
        self.index = SharedIndex(self.log, find_index_path(home.root, environ, keeps_out=home.read_only))

    @cached_property
    def _templates(self) -> jinja2.Environment:
        shared = build_environment()
        theirs = shared.loader or jinja2.DictLoader({})
        # A template of ours goes before a shared one of the same name, and may build on it by its longer name.
        loaders = [jinja2.PackageLoader("foregate.console"), theirs, jinja2.PrefixLoader({"shared": theirs})]
        own = shared.overlay(loader=jinja2.ChoiceLoader(loaders))
        own.filters = {**shared.filters, "minute": shorten_time, "pair": lambda value: (value, value)}
        return own

    def render(self, template: str, section: str, status: int = 200, follow: str = "", **data: Any) -> HTMLResponse:
        """Return a page; `follow` is the address that says when it has changed, "" where it does not."""
        about = {
            "section": section,
            "sections": SECTIONS,
            "read_only": self.read_only,
            "follow": follow,
            "links": LINKS,
        }
        about |= {"form_field": WORD, "form_word": self.entry.form_word}
        return HTMLResponse(self._templates.get_template(template).render(**about, **data), status)

    async def follow_all(self) -> str:
        """Return the address that says when any session has gone on."""
        return f"/events?after={await asyncio.to_thread(self.log.count_events)}"

    def close(self) -> None:
        """End what follows, and let go of index and log."""
        self.live.end()
        self.tuning.close()
        self.index.close()
        self.kept.close()
        self.log.close()


def shorten_time(time: str) -> str:
    """Return a recorded UTC time to the minute, as `2026-11-21 06:45 UTC`; "" for none."""
    return f"{time[:16].replace('T', ' ')} UTC" if time else ""


class SharedIndex:
    """The index of `log` in the file at `path`, None for memory; it is opened by the first page that asks."""

    def __init__(self, log: SqliteLog, path: Path | None) -> None:
        self._log, self._path = log, path
        self._thread = ThreadPoolExecutor(1, "foregate-index")
        self._index: AuditIndex | None = None

    async def ask(self, question: Callable[[AuditIndex], T]) -> T:
        """Return what the index answers, after it has caught up with the log."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, question)

    def _answer(self, question: Callable[[AuditIndex], T]) -> T:
        if self._index is None:
            self._index = AuditIndex(self._log, self._path)
        self._index.catch_up()
        return question(self._index)

    def close(self) -> None:
        """Close the index once what is asked has been answered."""
        if self._index is not None:
            self._thread.submit(self._index.close)
        self._thread.shutdown()
