"""Where Foregate keeps what outlives a process: one folder, readable by its owner only."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, closing, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from foregate.schemas.errors import LogError, UsageError
from foregate.schemas.session_link import find_root

if TYPE_CHECKING:
    from foregate.agent.session.permissions import Permissions
    from foregate.agent.tools.declarations import Declarations
    from foregate.assembly.setting import SessionOptions
    from foregate.schemas.protocols import Blobs, Log
    from foregate.telemetry.log.sqlite_log import SqliteLog
    from foregate.telemetry.queries.audit_index import AuditIndex
    from foregate.telemetry.queries.review_log import ReviewLog
    from foregate.telemetry.queries.rulings import DecisionAddress


class Home:
    """The folder of what outlives a process; `open` creates it.

    `events` is the log of all sessions, `blobs` holds before-images and other bytes by their SHA-256, `memory` what
    the memory tools remember, `pins` which tools of MCP servers a person has said yes to, `declarations` what they
    said of undeclared tools, `permissions` what they permit in which workspace, `endpoints` what model endpoints
    turned out not to do, `history` what was typed at the chat's prompt, `sandboxes` what commands have written in
    sandboxes and is not applied yet, `index` what is found of the log by; it may be deleted at any time.
    `suggestions` holds those for the policy by their id, and `policies` former versions of policy files that a
    command changed. `reviews` is the log of what people said of decisions afterwards, in a folder of its own, since
    the marks of who holds a log lie beside it. With `read_only` it is a home that may only be looked at, and is
    left unchanged.
    """

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        self.root, self.events, self.blobs, self.read_only = root, root / "events.db", root / "blobs", read_only
        self.memory, self.pins, self.history = root / "memory.json", root / "mcp-pins.json", root / "history"
        self.declarations, self.sandboxes = root / "declarations.json", root / "sandboxes"
        self.endpoints = root / "endpoints.json"
        self.permissions, self.index = root / "permissions", root / "index.db"
        self.suggestions, self.policies = root / "suggestions", root / "policies"
        self.reviews = root / "reviews" / "reviews.db"

    @classmethod
    def open(cls, environ: Mapping[str, str] = os.environ) -> Home:
        """Return the home of the environment, made with mode 0700; raise UsageError if it cannot be ours alone."""
        root = cls.path(environ)
        try:
            if not root.is_dir():
                root.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = root.stat()
        except OSError as error:
            why = f"`{root}`, the folder for the log, cannot be made ({error.strerror})"
            raise UsageError(f"{why}; set FOREGATE_HOME to another") from None
        if not _is_own(root, found):
            why = f"`{root}` may only be read here, because it is not yours or cannot be written"
            raise UsageError(f"{why}; set FOREGATE_HOME to a folder of your own")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise UsageError(f"others may write to `{root}`; make it yours with `chmod 700`, or set FOREGATE_HOME")
        return cls(root)

    @classmethod
    def open_to_read(cls, environ: Mapping[str, str] = os.environ) -> Home:
        """Return the home of the environment for looking at it: also a copy, or one that another user owns.

        The usual home is opened as by `open`. One that was named on the command line, and one that may not be written,
        is left unchanged. Raises UsageError where there is no log.
        """
        root = cls.path(environ)
        try:
            found = root.stat()
        except FileNotFoundError:
            if _chosen.get() is None:
                return cls.open(environ)
            raise UsageError(f"there is no folder `{root}`; name the one that holds `events.db`") from None
        except OSError as error:
            raise UsageError(f"`{root}` cannot be read ({error.strerror}); ask its owner, or copy it") from None
        if _chosen.get() is None and _is_own(root, found):
            return cls.open(environ)
        home = cls(root, read_only=True)
        if not home.events.is_file():
            raise UsageError(f"there is no log in `{root}`; name the folder that holds `events.db`, or copy it whole")
        return home

    @staticmethod
    def path(environ: Mapping[str, str] = os.environ) -> Path:
        """Return where the home is, without touching the disk."""
        if (chosen := _chosen.get()) is not None:
            return chosen.expanduser().absolute()
        if named := environ.get("FOREGATE_HOME"):
            return Path(named).expanduser().absolute()
        data = environ.get("XDG_DATA_HOME", "")
        base = Path(data) if data.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".local" / "share"
        return base / "foregate"

    def open_log(self) -> SqliteLog:
        """Return the log of this home, made where it is missing; raise LogError for a file that is no log of ours."""
        from foregate.telemetry.log.sqlite_log import SqliteLog

        return SqliteLog(self.events, read_only=self.read_only)

    def open_reviews(self) -> ReviewLog:
        """Return the log of what people said of decisions; its file is made with the first event."""
        from foregate.telemetry.queries.review_log import ReviewLog

        return ReviewLog(self.reviews, read_only=self.read_only)

    def open_declarations(self) -> Declarations:
        """Return what the person said of undeclared tools."""
        from foregate.agent.tools.declarations import Declarations

        return Declarations(self.declarations)

    def open_permissions(self, workspace: Path) -> Permissions:
        """Return what the person permits in a workspace."""
        from foregate.agent.session.permissions import Permissions

        return Permissions(self.permissions, str(workspace.resolve()))

    def open_blobs(self) -> Blobs:
        """Return the blob store of this home."""
        from foregate.telemetry.log.temporary_file import FileBlobs

        return FileBlobs(self.blobs, read_only=self.read_only)


_chosen: ContextVar[Path | None] = ContextVar("home", default=None)
"""The home that a command was told to work on; None for the one of its environment."""


@contextmanager
def choose_home(home: Path | None) -> Iterator[None]:
    """Have a block work on a home instead of the one of its environment; None changes nothing."""
    token = _chosen.set(home) if home is not None else None
    try:
        yield
    finally:
        if token is not None:
            _chosen.reset(token)


def _is_own(root: Path, found: os.stat_result) -> bool:
    """Whether a folder is this user's, and can be written."""
    return found.st_uid == os.geteuid() and os.access(root, os.W_OK)


def build_session_name(now: datetime | None = None) -> str:
    """Return a name that sorts by time, `20261121-064512-ab3f`; four random digits tell those of one second apart."""
    # It brings much along.
    import secrets

    second = f"{now or datetime.now(UTC):%Y%m%d-%H%M%S}"
    if second not in _MADE:
        _MADE.clear()
    taken = _MADE.setdefault(second, set())
    while (mark := secrets.token_hex(2)) in taken and len(taken) < _MARKS:
        pass
    taken.add(mark)
    return f"{second}-{mark}"


_MADE: dict[str, set[str]] = {}
"""The marks of the newest second's names: of two hundred agents opened together every third time two shared one."""
_MARKS = 16**4


async def find_fresh_name(log: Log) -> str:
    """Return a session name that `log` does not hold yet."""
    while True:
        name = build_session_name()
        try:
            await log.head(name)
        except LogError:
            return name


async def find_sessions(log: Log, wanted: Iterable[str]) -> list[str]:
    """Return the sessions named, once each, or all, newest first; raise UsageError for an unknown name."""
    return list(dict.fromkeys([await find_session(log, name) for name in wanted]) or await log.sessions())


async def find_judged_sessions(log: SqliteLog, wanted: Iterable[str]) -> list[str]:
    """Return sessions as `find_sessions` does; raise UsageError where no call of them was judged: from none nothing
    follows."""
    from foregate.schemas.event import TurnJudged

    names = await find_sessions(log, wanted)
    bodies = (event.body for name in names for event in log.events(name, kinds=("turn_judged",)))
    if any(isinstance(body, TurnJudged) and body.judgement.verdicts for body in bodies):
        return names
    raise UsageError("no call is judged in what is recorded here, so nothing is claimed; record one by `foregate chat`")


async def find_session(log: Log, wanted: str) -> str:
    """Return the session `wanted` names: in full, by a beginning only one has, or `last` for the newest.

    The logs of child tasks, with a dot in their names, are only found in full. Raises UsageError for none, or several.
    """
    names = await log.sessions()
    if wanted == "last" and (own := [name for name in names if "." not in name]):
        return own[0]
    if wanted in names:
        return wanted
    known = set(names)
    own = [name for name in names if wanted and "." not in name and name.startswith(wanted)]
    matching = [name for name in own if find_root(name, known) not in own or find_root(name, known) == name]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageError(f"{len(matching)} sessions begin with `{wanted}`; give more of the name")
    raise UsageError(f"there is no session `{wanted}`; `foregate audit list` names those there are")


async def find_address(log: Log, wanted: str) -> DecisionAddress:
    """Return what `[SESSION/]SEQ.GATE[:CALL]` names, the session in full; raise UsageError for what is no decision."""
    from foregate.telemetry.queries.rulings import parse_address

    address = parse_address(wanted)
    return address._replace(session=await find_session(log, address.session))


def open_home_log() -> AbstractContextManager[SqliteLog]:
    """Return the log of the home, for reading, open until the context ends."""
    return closing(Home.open_to_read().open_log())


class SessionPlace(NamedTuple):
    """Where a session is kept: its log and blobs, the file of personal memory, Foregate's own folders, and what the
    person said of tools and permits in a workspace. `sandboxes` is where sandboxes keep what is written; None is the
    temporary folder.
    """

    log: Log
    blobs: Blobs
    memory: Path | None = None
    own: tuple[Path, ...] = ()
    sandboxes: Path | None = None
    declarations: Declarations | None = None
    permissions: Callable[[Path], Permissions] | None = None


def open_place(setting: SessionOptions, resources: AsyncExitStack) -> SessionPlace:
    """Return the place of the user's own folder, or of the log that is given; `resources` close it."""
    from foregate.telemetry.log.memory_log import MemoryBlobs

    if setting.log is not None:
        return SessionPlace(setting.log, setting.blobs or MemoryBlobs())
    home = Home.open(setting.environ)
    log = home.open_log()
    resources.callback(log.close)
    said = home.open_declarations(), home.open_permissions
    return SessionPlace(log, setting.blobs or home.open_blobs(), home.memory, (home.root,), home.sandboxes, *said)


@contextmanager
def open_home_index(
    on_session: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[SqliteLog, AuditIndex]]:
    """Yield the log of the home and its index, which has caught up with it; `on_session` is told how far it is."""
    from foregate.telemetry.queries.audit_index import AuditIndex

    with open_home_log() as log, closing(AuditIndex(log, _find_path(log))) as index:
        index.catch_up(on_session)
        yield log, index


def _find_path(log: SqliteLog) -> Path | None:
    return find_index_path(log.path.parent, keeps_out=log.read_only)


def find_index_path(home: Path, environ: Mapping[str, str] = os.environ, *, keeps_out: bool = False) -> Path | None:
    """Return where the index of a home lies: in it, in the person's cache where nothing can be written there (or with
    `keeps_out` may be), or None, which is in memory, where that cannot be either."""
    path = Home(home).index
    if not keeps_out and os.access(path if path.exists() else home, os.W_OK) and os.access(home, os.W_OK):
        return path
    named = environ.get("XDG_CACHE_HOME", "")
    base = Path(named) if named.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".cache"
    folder = base / "foregate" / sha256(os.fsencode(home.resolve())).hexdigest()[:32]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return None
    mine = found.st_uid == os.geteuid() and not found.st_mode & 0o022 and os.access(folder, os.W_OK)
    return folder / path.name if mine else None
