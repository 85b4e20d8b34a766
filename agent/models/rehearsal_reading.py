"""What the rehearsal model reads out of a conversation: the request in hand, and the answers to its calls since.

Plain English is understood by a table of patterns, each the sentence of one kind of wish. A pattern sees a clause in
which every quoted passage is one mark. What its named groups mean stands at `_fill_wish`. Several wishes may stand in
one message, one per line or joined by `then`, `;`, a comma or `and`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.message import Message
from foregate.schemas.tool_call import ToolCall

LONGEST = 8000
"""Characters of one message this model reads; a longer one is refused in words."""


class CallAnswer(Struct, frozen=True):
    """The outcome of one call, or what Foregate said besides; of Foregate speaks only the entry `foregate` at the top.

    `code` is empty when the call ran; `ok` then says whether it worked. `remedy` is the call a hold asks for,
    `observed` what it showed where it was made already. `task` is the task of a plan that is to be filled in.
    """

    ok: bool = False
    output: str = ""
    exit_code: int | None = None
    left_out_bytes: int = 0
    code: str = ""
    message: str = ""
    notice: str = ""
    remedy: dict[str, Any] | None = None
    observed: dict[str, Any] | None = None
    task: dict[str, Any] = field(default_factory=dict)

    @property
    def cure(self) -> ToolCall | None:
        """The call a hold asks for, where nobody made it yet."""
        wanted = self.remedy or {}
        made = self.observed is not None or not wanted.get("tool")
        return None if made else ToolCall.of(wanted["tool"], wanted.get("arguments", {}))

    @property
    def why(self) -> str:
        """Why the call did not do what it should, as the end of a sentence."""
        if self.code:
            return f"{self.message.rstrip('.') or 'no reason was given'} ({self.code})"
        first = next(iter(self.output.strip().splitlines()), "")
        status = f"exit code {self.exit_code}" if self.exit_code is not None else ""
        return ": ".join(filter(None, (status, first[:300]))) or "it failed"


class Exchange(Struct, frozen=True):
    """One response of the model after the request: its calls with their answers, and a notice that followed."""

    calls: tuple[ToolCall, ...]
    answers: tuple[CallAnswer, ...]
    notice: str = ""


class RehearsalConversation(Struct, frozen=True, dict=True):
    """The newest request of the person, the vague one it makes clear ("" when none), and the exchanges since.

    `task` is the task of a plan that is to be filled in, an empty object where none is.
    """

    request: str = ""
    clarifies: str = ""
    exchanges: Sequence[Exchange] = ()
    task: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def meaning(self) -> UnderstoodRequest:
        """What the newest message wants; a bare path that answers a question means cleaning up there."""
        text = self.request[:LONGEST]
        request = understand(text)
        places = list(filter(is_path_like, (word.strip(",.;:!?\"'") for word in text.split())))
        unclear = all(wish.verb in ("unknown", "vague") for wish in request.wishes)
        if self.clarifies and not request.words_only and unclear and len(places) == 1:
            return UnderstoodRequest((Wish("sweep", text, places[0], "*.log"),))
        return request


def read_conversation(messages: Sequence[Message]) -> RehearsalConversation:
    """Return the conversation as the rehearsal model understands it; pure."""
    asked = [index for index, message in enumerate(messages) if message.role == "user" and not read_notice(message)]
    if not asked:
        return RehearsalConversation()
    last = asked[-1]
    between = messages[asked[-2] + 1 : last] if len(asked) > 1 else ()
    held = any(m.role == "tool" and read_answer(m.text).code == "uncertainty_clarification" for m in between)
    is_asked_back = held and between[-1].role == "assistant" and not between[-1].calls
    task = read_answer(messages[-1].text).task if read_notice(messages[-1]) else {}
    since = split_exchanges(messages[last + 1 :])
    return RehearsalConversation(messages[last].text, messages[asked[-2]].text if is_asked_back else "", since, task)


def split_exchanges(messages: Sequence[Message]) -> list[Exchange]:
    """Return each response with the answers to its calls; a call without an answer is left as not run."""
    answers = {message.call: read_answer(message.text) for message in messages if message.role == "tool"}
    lost = CallAnswer(code="not_run_cancelled", message="no answer came")
    result: list[Exchange] = []
    for message in messages:
        if message.role == "assistant":
            result.append(Exchange(message.calls, tuple(answers.get(call.id, lost) for call in message.calls)))
        elif (notice := read_notice(message)) and result:
            result[-1] = replace(result[-1], notice=f"{result[-1].notice} {notice}".strip())
    return result


def read_notice(message: Message) -> str:
    """Return Foregate's own words in a message that stands for a person's, "" when it is a person's."""
    is_ours = message.role == "user" and message.text.startswith('{"foregate"')
    return read_answer(message.text).notice if is_ours else ""


def read_answer(text: str) -> CallAnswer:
    """Return what a message of Foregate says; any other text is an output."""
    body = read_object(text) or {"output": text}
    try:
        plain = {key: value for key, value in body.items() if key not in ("code", "message", "notice", "remedy")}
        return strict_json.load(CallAnswer, {**plain, **body.get("foregate", {})})
    except (InvalidJson, TypeError):
        return CallAnswer(output=text)


def read_object(text: str) -> dict[str, Any]:
    """Return the object a text holds, an empty one when it is none."""
    try:
        value = strict_json.parse(text)
    except InvalidJson:
        return {}
    return value if isinstance(value, dict) else {}


_TO = r"(?:->|=>|to|into|with|by)"
_RID = r"(?:delete|remove|rm|erase)"
_FROM = r"(?: (?:in|under|from) (?P<place>.+))?"
_SHOW = r"(?:show (?:me )?(?:the )?)?(?:git )?"
_HERE = r"(?:this|the|my|our) (?:repository|repo|project|workspace|folder|directory|code|codebase)"
_FLAW = r"(?:typo|defect|error|bug|mistake|spelling)s?"
_WITH = r"(?:with|containing|saying)(?: the)?(?: text| content)?:?"
_MESSAGE = r"(?:with|saying|as|using)(?: the| a)?(?: message)?:?"
_ALL = r"(?:everything|all|all changes|the changes|it|them|this|that)"
_TESTS = r"(?:test\w*|[\w.:/-]+ tests?)(?: suite| failures?)?"
_FUNCTION = r"(?:the )?(?:function |method )?(?P<text>\w+)(?:\(\))?(?: function| method)?(?: (?:in|of) (?P<file>.+))?"
_IF_CHANGED = r"(?:check|see|look) (?:if|whether) there are (?:any )?(?:uncommitted )?changes,?(?: and)? if so,?"

_SENTENCES = (
    ("help", r"(?:help|\?|what can you do.*|what do you understand|who are you|what are you)"),
    ("greet", r"(?:hello|hi|hey|good (?:morning|evening|day)|thanks|thank you)(?: .{0,40})?"),
    ("overview", rf"(?:(?:tell me|explain|describe|summari[sz]e|show me) )?(?:what(?:'s| is) (?:in )?)?{_HERE}.*"),
    ("overview", r"(?:look around|give me an overview.*|what (?:files )?(?:is|are) (?:in )?here)"),
    ("status", r"(?:git )?status|what (?:has )?changed"),
    ("diff", rf"{_SHOW}(?:diff|changes)"),
    ("log", rf"{_SHOW}(?:log|history|commits)"),
    ("list", r"(?:list|ls|show)(?: me)?(?: all)?(?: the)? files(?: (?:in|of|under) (?P<place>\S+))?"),
    ("list", r"(?:list|ls)(?: (?:the )?(?:folder |directory )?(?P<place>\S+))?"),
    ("debug", rf"(?:debug|fix|look into|find out why)(?: the| this| my)?(?: failing| broken)? {_TESTS}(?: fails?)?"),
    ("test", rf"run(?: the| all| my)*(?: failing| broken)? (?:{_TESTS})"),
    ("search", r"(?:search|grep|look|find|where is)(?: for)? (?P<text>.+?)(?: (?:in|under) (?P<place>\S+))?"),
    ("replace", rf"(?:fix|correct)(?: the)? {_FLAW}[: ]+(?P<text>.+?) {_TO} (?P<other>.+?) in (?P<place>.+)"),
    ("replace", rf"(?:replace|change|correct|update) (?P<text>.+?) {_TO} (?P<other>.+?) in (?P<place>.+)"),
    ("replace", r"fix (?P<text>.+?) (?:->|=>) (?P<other>.+?) in (?P<place>.+)"),
    ("create_directory", r"(?:create|make|add) (?:a |the )?(?:new )?(?:folder|directory) (?P<place>.+)"),
    ("docstring", rf"add (?:an? |the )?docstring (?:to|for|in) {_FUNCTION}"),
    ("append", r"(?:append|add) (?P<line>.+?) to (?P<file>.+)"),
    ("write", rf"(?:create|write|make|save)(?: an?| the)?(?: new)?(?: file)? (?P<file>\S+) {_WITH} (?P<line>.+)"),
    ("write", r"(?:write|put|save) (?P<line>.+?) (?:to|into|in) (?P<file>.+)"),
    ("sweep", rf"{_RID}(?: the| all)*(?: stale| old)*(?: logs?| log files){_FROM}"),
    ("sweep", rf"{_RID}(?: the| all)? (?P<glob>\S*[*?[]\S*)(?: files)?{_FROM}"),
    ("delete", rf"{_RID} (?P<files>.+)"),
    ("move", r"(?:rename|move|mv) (?P<place>.+?) (?:to|into|as) (?P<to>.+)"),
    ("run", r"(?:run|execute)(?: the)?(?: command)?:? (?P<command>.+)"),
    ("commit_if", rf"{_IF_CHANGED} commit {_ALL}(?:,? {_MESSAGE} (?P<text>.+))?"),
    ("commit", rf"commit(?: {_ALL})?(?:,? {_MESSAGE}|:)? (?P<text>\x00[0-9]+\x00)"),
    ("commit", rf"commit(?: {_ALL}| (?P<files>.+?))?(?:,? {_MESSAGE}|:) (?P<text>.+)"),
    ("push", r"push(?: the)?(?: branch)? (?P<text>\S+) to (?P<place>\S+)"),
    ("remember", r"(?:remember|note)(?: that)?:? (?:(?P<name>[^ :=]+)(?:: | = ))?(?P<text>.+)"),
    ("recall", r"(?:recall|what do you (?:remember|know))(?: (?:about |of )?(?P<text>.+))?"),
    ("delegate", r"delegate:? (?P<text>.+)"),
    ("send", r"send (?:(?P<text>\x00[0-9]+\x00)|a copy) to (?P<place>\S+@\S+)"),
    ("mail", r"(?:read|check|open)(?: the| my| our)? mail"),
    ("fetch", r"(?:fetch|get|download|open|read|show) (?P<url>\S+)"),
    ("read", r"(?:explain|describe|summari[sz]e)(?: what(?: is in)?)? (?P<files>\S+)(?: (?:does|is|says))?"),
    ("read", r"(?:tell me )?what(?: (?:is in|does|is)|'s in)? (?P<files>\S+)(?: (?:do|say|contain|is)s?)?"),
    ("read", r"(?:read|show|open|cat|view|print)(?: me)? (?P<files>.+)"),
    ("vague", rf"(?:clean|tidy|fix|sort|wipe|improve|make|do|get rid|throw|update|clear|change|{_RID})\b.*"),
)
# "fix it", "run the tests".
_PATTERNS = tuple((verb, compile_late(f"^(?:{pattern})$", re.IGNORECASE)) for verb, pattern in _SENTENCES)

_VERB = (
    r"(?:add|append|cat|change|check|clean|commit|correct|create|debug|delegate|delete|describe|diff|edit|erase|execute"
    r"|explain|fetch|find|fix|grep|list|look|make|move|mv|open|print|push|put|read|recall|remember|remove|rename|replace|rm"
    r"|run|save|search|send|show|summari[sz]e|tidy|update|view|what|where|wipe|write)\b"
)
"""Words a new clause begins with after `and`, a comma or a full stop."""
# "\x000\x00".
_MARK = compile_late("\x00([0-9]+)\x00")
"""Stands for a quoted passage while a clause is read."""
# '"teh"', "`a.py`", "'teh'"; the apostrophe in "don't" opens nothing.
_QUOTED = compile_late(r"\"([^\"]+)\"|\u201c([^\u201d]+)\u201d|`([^`]+)`|(?<!\w)'([^'\n]+)'")
# "; ", " and then ", ", then ".
_JOINT = compile_late(
    rf" *(?:;|\n|(?<!if so),? and then |(?<!if so),? then (?={_VERB})|, then |,? and (?={_VERB})"
    rf"|(?<!if so), (?={_VERB})|(?<![0-9])[.!] (?=(?:then |and )?{_VERB}))",
    re.IGNORECASE,
)
# "- please ", "ok, could you ".
_OPENING = compile_late(
    r"^(?: *(?:[-*\u2022]|[0-9]{1,3}[.)]) +)?(?:(?:please|now|first|next|also|finally|then|and|ok|okay|so|could you"
    r"|can you|would you|i want you to|i would like you to|let us|let's|wait|well|no|yes|right)\b[,.:!]? *)*",
    re.IGNORECASE,
)
# "write it, please", "write it!".
_CLOSING = compile_late(r"(?:(?<=\S)[,.!?;:]+|,? please)+$", re.IGNORECASE)
# "in src/a.py, replace ".
_PLACE_COMMA = compile_late(rf"((?:^|[;\n.]|then|and) *in \S+?), (?={_VERB})", re.IGNORECASE)
# "in src/a.py, replace teh by the".
_PLACE_FIRST = compile_late(r"^in (\S*[./\x00]\S*?),? (.+)$", re.IGNORECASE)
# "just tell me", "without changing anything".
_WORDS_ONLY = compile_late(
    r"\b(?:just|only) (?:tell me|answer)\b[,:]?|\b(?:just|only) (?=explain|describe)|\bin words(?: only)?\b[,:]?"
    r"|\b(?:words|text) only\b[,:]?|,? ?\bwithout changing anything\b"
    r"|[,;]? ?\b(?:do not|don't) (?:change|touch) anything\b",
    re.IGNORECASE,
)
_PIECES = "poem|haiku|limerick|story"
# "write me a poem".
_POEM = compile_late(rf"\bwrite (?:me )?a (?:{_PIECES})\b", re.IGNORECASE)
# "the file ".
_BEFORE_PATH = compile_late(r"^(?:the |my |our |a |all )*(?:file |folder |directory |files )?", re.IGNORECASE)
# " folder".
_BEHIND_PATH = compile_late(r" (?:file|folder|directory)$", re.IGNORECASE)
# "src/a.py", "README", "Makefile".
_PATH_LIKE = compile_late(r"^[^\s]*[./\\][^\s]*$|^[A-Z]{3,}$|^Makefile$|^Dockerfile$")
_SHELL = frozenset("|&;<>$`*?~(){}\n")


class Wish(Struct, frozen=True):
    """One thing asked for. `said` is the clause; the other fields are used as the kind of wish needs them.

    replace: `text` becomes `other` in `target`; move: `target` to `other`; write and append: `text` into `target`;
    docstring: of the function `text` in `target`; remember: `text` under the name `target`;
    read, delete, commit: paths in `words` (commit: none means everything, `text` is the message);
    run: argument vector in `words`; sweep: files matching `text` in `target`; push: the branch `text` to `target`;
    send: `text` to the address `target`.
    """

    verb: str
    said: str
    target: str = ""
    text: str = ""
    other: str = ""
    words: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """`target` without a slash behind it; the workspace where it is empty."""
        return self.target.rstrip("/") or "."

    @property
    def pattern(self) -> str:
        """The files that match `text` in `folder`, as a glob."""
        return self.text if self.folder == "." else f"{self.folder}/{self.text}"


class UnderstoodRequest(Struct, frozen=True):
    """What a message wants: wishes in order, whether it wants words and nothing else, and whether those of a poem."""

    wishes: tuple[Wish, ...]
    words_only: bool = False
    poem: bool = False


def understand(text: str) -> UnderstoodRequest:
    """Return what a message wants. Never raises; what is not understood is a wish with the verb `unknown`.

    `it` stands for the path named just before, `a copy` for the text sent before it; without such a text the clause is
    not understood.
    """
    quoted: list[str] = []

    def mark(found: re.Match[str]) -> str:
        quoted.append(found.group(found.lastindex or 0))
        return f"\x00{len(quoted) - 1}\x00"

    masked = _QUOTED.sub(mark, text.replace("\x00", "").replace("\r", "\n").replace("\t", " "))
    clauses = _JOINT.split(_PLACE_COMMA.sub(r"\1 ", _WORDS_ONLY.sub(" ", masked)))
    wishes: list[Wish] = []
    named = sent = ""
    for clause in filter(None, map(_tidy, clauses)):
        wish = _read_wish(clause, quoted)
        if wish.target == "it" or wish.words == ("it",):
            changes = {"target": named} if wish.target == "it" else {"words": (named,)}
            wish = replace(wish, **changes) if named else Wish("unknown", wish.said)
        if wish.verb == "send":
            sent = wish.text or sent
            wish = replace(wish, text=sent) if sent else Wish("unknown", wish.said)
        wishes.append(wish)
        last = wish.other if wish.verb == "move" else wish.target
        named = next(filter(is_path_like, (last, *wish.words)), named)
    words_only = bool(_WORDS_ONLY.search(masked) or _POEM.search(masked))
    return UnderstoodRequest(tuple(wishes), words_only, poem=re.search(_PIECES, text, re.IGNORECASE) is not None)


def is_path_like(text: str) -> bool:
    """Whether a word could name a file: it has a dot or a slash, or is a name such as README."""
    return _PATH_LIKE.match(text) is not None


def end_line(text: str) -> str:
    """Return a text as the lines of a file: with a newline at its end."""
    return text if not text or text.endswith("\n") else f"{text}\n"


def _tidy(clause: str) -> str:
    """Return a clause without bullet, courtesy and closing punctuation, and a place in front moved to the end."""
    clause = _CLOSING.sub("", _OPENING.sub("", " ".join(clause.split()))).strip()
    first = _PLACE_FIRST.match(clause)
    return f"{first[2]} in {first[1]}" if first and " in " not in first[2] else clause


def _read_wish(clause: str, quoted: Sequence[str]) -> Wish:
    for verb, pattern in _PATTERNS:
        if (found := pattern.match(clause)) and (wish := _fill_wish(verb, found, quoted)):
            return wish
    return Wish("unknown", _unmask(clause, quoted))


def _fill_wish(verb: str, found: re.Match[str], quoted: Sequence[str]) -> Wish | None:
    """Return the wish of a sentence, or None where a group is not what its name says.

    `file` and `files` must look like paths (`it` is the one named before), `place` and `to` may be any; a `glob` may
    stand behind a folder; `line` is a line of a file; a `command` with signs of the shell is one line for it.
    """
    parts = found.groupdict("")
    named = {name: _unmask(text, quoted) for name, text in parts.items()}
    files, file = parts.get("files", ""), parts.get("file") or ("it" if verb == "docstring" else "")
    words = tuple(_read_path(part, quoted) for part in re.split(r",? and |, ?", files) if part.strip())
    target = _read_path(file, quoted) if file else ""
    claimed = (*((target,) if file else ()), *(() if "\x00" in files else words))
    if not all(path == "it" or is_path_like(path) for path in claimed):
        return None
    if not named.get("url", "http://").startswith(("http://", "https://")):
        return None
    said, text = _unmask(found[0], quoted), named.get("text") or end_line(named.get("line", ""))
    target = target or named.get("url") or (_read_path(parts["place"], quoted) if "place" in parts else "")
    other = _read_path(parts["to"], quoted) if "to" in parts else named.get("other", "")
    match verb:
        case "run":
            return _read_command(said, parts["command"], quoted)
        case "sweep":
            folder, _, text = named.get("glob", "*.log").rpartition("/")
            target = folder or target
        case "remember":
            target = named["name"] or "-".join(re.findall(r"[a-z0-9]+", text.casefold())[:4]) or "note"
    return Wish(verb, said, target, text, other, words)


def _read_command(said: str, text: str, quoted: Sequence[str]) -> Wish | None:
    """Return the wish to run a command, a line for the shell where it holds such signs outside quotes."""
    whole = _MARK.fullmatch(text)
    line = _unmask(text, quoted) if whole else _MARK.sub(lambda mark: shlex.quote(quoted[int(mark[1])]), text)
    if _SHELL & set(line if whole else _MARK.sub("", text)):
        return Wish("shell", said, text=line)
    try:
        words = tuple(shlex.split(line))
    except ValueError:
        return None
    return Wish("run", said, words=words) if words else None


def _read_path(text: str, quoted: Sequence[str]) -> str:
    """Return a path as named, without words like `the ... file` around it or a comma behind it."""
    bare = _BEHIND_PATH.sub("", _BEFORE_PATH.sub("", text))
    return _unmask(bare, quoted).rstrip(",").removeprefix("./") or "."


def _unmask(text: str, quoted: Sequence[str]) -> str:
    """Return a passage with its quoted parts put back, without quotes around them."""
    return _MARK.sub(lambda mark: quoted[int(mark[1])], text).strip()
