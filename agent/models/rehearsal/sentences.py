"""The plain English the rehearsal model understands: a table of patterns, each the sentence of one kind of wish.

A pattern sees a clause in which every quoted passage is one mark. What its named groups mean stands at `_fill_wish`.
Several wishes may stand in one message, one per line or joined by `then`, `;`, a comma or `and`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

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
    ("remember", r"(?:remember|note)(?: that)?:? (?:(?P<name>[^ :=]+)(?:: | = ))?(?P<text>.+)"),
    ("recall", r"(?:recall|what do you (?:remember|know))(?: (?:about |of )?(?P<text>.+))?"),
    ("delegate", r"delegate:? (?P<text>.+)"),
    ("fetch", r"(?:fetch|get|download|open|read|show) (?P<url>\S+)"),
    ("read", r"(?:explain|describe|summari[sz]e)(?: what(?: is in)?)? (?P<files>\S+)(?: (?:does|is|says))?"),
    ("read", r"(?:tell me )?what(?: (?:is in|does|is)|'s in)? (?P<files>\S+)(?: (?:do|say|contain|is)s?)?"),
    ("read", r"(?:read|show|open|cat|view|print)(?: me)? (?P<files>.+)"),
    ("vague", rf"(?:clean|tidy|fix|sort|wipe|improve|make|do|get rid|throw|update|clear|change|{_RID})\b.*"),
)
_PATTERNS = tuple((verb, re.compile(f"^(?:{pattern})$", re.IGNORECASE)) for verb, pattern in _SENTENCES)

_VERB = (
    r"(?:add|append|cat|change|check|clean|commit|correct|create|debug|delegate|delete|describe|diff|edit|erase|execute"
    r"|explain|fetch|find|fix|grep|list|look|make|move|mv|open|print|put|read|recall|remember|remove|rename|replace|rm"
    r"|run|save|search|show|summari[sz]e|tidy|update|view|what|where|wipe|write)\b"
)
"""Words a new clause begins with after `and`, a comma or a full stop."""
_MARK = re.compile("\x00([0-9]+)\x00")
"""Stands for a quoted passage while a clause is read."""
_QUOTED = re.compile(r"\"([^\"]+)\"|\u201c([^\u201d]+)\u201d|`([^`]+)`|(?<!\w)'([^'\n]+)'")
_JOINT = re.compile(
    rf" *(?:;|\n|(?<!if so),? and then |(?<!if so),? then (?={_VERB})|, then |,? and (?={_VERB})"
    rf"|(?<!if so), (?={_VERB})|(?<![0-9])[.!] (?=(?:then |and )?{_VERB}))",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"^(?: *(?:[-*\u2022]|[0-9]{1,3}[.)]) +)?(?:(?:please|now|first|next|also|finally|then|and|ok|okay|so|could you"
    r"|can you|would you|i want you to|i would like you to|let us|let's|wait|well|no|yes|right)\b[,.:!]? *)*",
    re.IGNORECASE,
)
_CLOSING = re.compile(r"(?:(?<=\S)[,.!?;:]+|,? please)+$", re.IGNORECASE)
_PLACE_COMMA = re.compile(rf"((?:^|[;\n.]|then|and) *in \S+?), (?={_VERB})", re.IGNORECASE)
_PLACE_FIRST = re.compile(r"^in (\S*[./\x00]\S*?),? (.+)$", re.IGNORECASE)
_WORDS_ONLY = re.compile(
    r"\b(?:just|only) (?:tell me|answer)\b[,:]?|\b(?:just|only) (?=explain|describe)|\bin words(?: only)?\b[,:]?"
    r"|\b(?:words|text) only\b[,:]?|,? ?\bwithout changing anything\b"
    r"|[,;]? ?\b(?:do not|don't) (?:change|touch) anything\b",
    re.IGNORECASE,
)
_PIECES = "poem|haiku|limerick|story"
_POEM = re.compile(rf"\bwrite (?:me )?a (?:{_PIECES})\b", re.IGNORECASE)
_BEFORE_PATH = re.compile(r"^(?:the |my |our |a |all )*(?:file |folder |directory |files )?", re.IGNORECASE)
_BEHIND_PATH = re.compile(r" (?:file|folder|directory)$", re.IGNORECASE)
_PATH_LIKE = re.compile(r"^[^\s]*[./\\][^\s]*$|^[A-Z]{3,}$|^Makefile$|^Dockerfile$")
_SHELL = frozenset("|&;<>$`*?~(){}\n")


class Wish(Struct, frozen=True):
    """One thing asked for. `said` is the clause; the other fields are used as the kind of wish needs them.

    replace: `text` becomes `other` in `target`; move: `target` to `other`; write and append: `text` into `target`;
    docstring: of the function `text` in `target`; remember: `text` under the name `target`;
    read, delete, commit: paths in `words` (commit: none means everything, `text` is the message);
    run: argument vector in `words`; sweep: files matching `text` in `target`.
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


class UnderstoodRequest(Struct, frozen=True):
    """What a message wants: wishes in order, whether it wants words and nothing else, and whether those of a poem."""

    wishes: tuple[Wish, ...]
    words_only: bool = False
    poem: bool = False


def understand(text: str) -> UnderstoodRequest:
    """Return what a message wants. Never raises; what is not understood is a wish with the verb `unknown`.

    `it` stands for the path named just before; where there is none, the clause is not understood.
    """
    quoted: list[str] = []

    def mark(found: re.Match[str]) -> str:
        quoted.append(found.group(found.lastindex or 0))
        return f"\x00{len(quoted) - 1}\x00"

    masked = _QUOTED.sub(mark, text.replace("\x00", "").replace("\r", "\n").replace("\t", " "))
    clauses = _JOINT.split(_PLACE_COMMA.sub(r"\1 ", _WORDS_ONLY.sub(" ", masked)))
    wishes: list[Wish] = []
    named = ""
    for clause in filter(None, map(_tidy, clauses)):
        wish = _read_wish(clause, quoted)
        if wish.target == "it" or wish.words == ("it",):
            changes = {"target": named} if wish.target == "it" else {"words": (named,)}
            wish = replace(wish, **changes) if named else Wish("unknown", wish.said)
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
