"""The plain English the rehearsal model understands: a table of patterns, each the sentence of one kind of wish.

A pattern sees a clause in which every quoted passage is one mark. What its named groups mean stands at `wish_of`.
Several wishes may stand in one message, one per line or joined by `then`, `;`, a comma or `and`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from msgspec.structs import replace

from foregate.agent.models.rehearsal.wish import (
    MARK,
    UnderstoodRequest,
    Wish,
    end_line,
    is_path_like,
    read_path,
    read_paths,
    unmask,
)

_HERE = r"(?:this|the|my|our) (?:repository|repo|project|workspace|folder|directory|code|codebase)"
_TELL = r"(?:(?:tell me|explain|describe|summari[sz]e|show me) )?"
_SHOW = r"(?:show (?:me )?(?:the )?)?(?:git )?"
_FLAW = r"(?:typo|defect|error|bug|mistake|spelling)s?"
_TO = r"(?:->|=>|to|into|with|by)"
_RID = r"(?:delete|remove|rm|erase)"
_LOGS = r"(?: the| all)*(?: stale| old)*(?: logs?| log files)"
_WITH = r"(?:with|containing|saying)(?: the)?(?: text| content)?:?"
_MESSAGE = r"(?:with|saying|as|using)(?: the| a)?(?: message)?:?"
_ALL = r"(?:everything|all|all changes|the changes|it|them|this|that)"
_TESTS = r"(?:test\w*|[\w.:/-]+ tests?)(?: suite| failures?)?"

_SENTENCES = (
    ("help", r"(?:help|\?|what can you do.*|what do you understand|who are you|what are you)"),
    ("greet", r"(?:hello|hi|hey|good (?:morning|evening|day)|thanks|thank you)(?: .{0,40})?"),
    ("overview", rf"{_TELL}(?:what(?:'s| is) (?:in )?)?{_HERE}.*"),
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
    (
        "docstring",
        r"add (?:an? |the )?docstring (?:to|for|in) (?:the )?(?:function |method )?(?P<text>\w+)(?:\(\))?"
        r"(?: function| method)?(?: (?:in|of) (?P<file>.+))?",
    ),
    ("append", r"(?:append|add) (?P<line>.+?) to (?P<file>.+)"),
    ("write", rf"(?:create|write|make|save)(?: an?| the)?(?: new)?(?: file)? (?P<file>\S+) {_WITH} (?P<line>.+)"),
    ("write", r"(?:write|put|save) (?P<line>.+?) (?:to|into|in) (?P<file>.+)"),
    ("sweep", rf"{_RID}{_LOGS}(?: (?:in|under|from) (?P<place>.+))?"),
    ("sweep", rf"{_RID}(?: the| all)? (?P<glob>\S*[*?[]\S*)(?: files)?(?: (?:in|under|from) (?P<place>.+))?"),
    ("delete", rf"{_RID} (?P<files>.+)"),
    ("move", r"(?:rename|move|mv) (?P<place>.+?) (?:to|into|as) (?P<to>.+)"),
    ("run", r"(?:run|execute)(?: the)?(?: command)?:? (?P<command>.+)"),
    (
        "commit_if",
        r"(?:check|see|look) (?:if|whether) there are (?:any )?(?:uncommitted )?changes,?(?: and)? if so,? "
        rf"commit {_ALL}(?:,? {_MESSAGE} (?P<text>.+))?",
    ),
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
PATTERNS = tuple((verb, re.compile(f"^(?:{pattern})$", re.IGNORECASE)) for verb, pattern in _SENTENCES)

_VERB = (
    r"(?:add|append|cat|change|check|clean|commit|correct|create|debug|delegate|delete|describe|diff|edit|erase|execute"
    r"|explain|fetch|find|fix|grep|list|look|make|move|mv|open|print|put|read|recall|remember|remove|rename|replace|rm"
    r"|run|save|search|show|summari[sz]e|tidy|update|view|what|where|wipe|write)\b"
)
"""Words a new clause begins with after `and`, a comma or a full stop."""
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
_PLACE_COMMA = re.compile(rf"((?:^|[;\n.]|then|and) *in \S+?), (?={_VERB})", re.IGNORECASE)
_PLACE_FIRST = re.compile(r"^in (\S*[./\x00]\S*?),? (.+)$", re.IGNORECASE)
_WORDS_ONLY = re.compile(
    r"\b(?:just|only) (?:tell me|answer)\b[,:]?|\b(?:just|only) (?=explain|describe)|\bin words(?: only)?\b[,:]?"
    r"|\b(?:words|text) only\b[,:]?|,? ?\bwithout changing anything\b"
    r"|[,;]? ?\b(?:do not|don't) (?:change|touch) anything\b",
    re.IGNORECASE,
)
_POEM = re.compile(r"\bwrite (?:me )?a (?:poem|haiku|limerick|story)\b", re.IGNORECASE)
_SHELL = frozenset("|&;<>$`*?~(){}\n")


def understand(text: str) -> UnderstoodRequest:
    """Return what a message wants. Never raises; what is not understood is a wish with the verb `unknown`."""
    quoted: list[str] = []

    def mark(found: re.Match[str]) -> str:
        quoted.append(found.group(found.lastindex or 0))
        return f"\x00{len(quoted) - 1}\x00"

    masked = _QUOTED.sub(mark, text.replace("\x00", "").replace("\r", "\n").replace("\t", " "))
    asks_words = _WORDS_ONLY.search(masked) is not None
    clauses = _JOINT.split(_PLACE_COMMA.sub(r"\1 ", _WORDS_ONLY.sub(" ", masked)))
    wishes = [wish_in(clause, quoted) for part in clauses if (clause := tidy(part))]
    return UnderstoodRequest(tuple(with_context(wishes)), asks_words or _POEM.search(masked) is not None)


def tidy(clause: str) -> str:
    """Return a clause without bullet, courtesy and closing punctuation, and a place in front moved to the end."""
    clause = _OPENING.sub("", " ".join(clause.split()))
    clause = re.sub(r"(?:(?<=\S)[,.!?;:]+|,? please)+$", "", clause, flags=re.IGNORECASE).strip()
    first = _PLACE_FIRST.match(clause)
    return f"{first.group(2)} in {first.group(1)}" if first and " in " not in first.group(2) else clause


def wish_in(clause: str, quoted: Sequence[str]) -> Wish:
    """Return the wish a clause states, by the first sentence of the table that fits."""
    for verb, pattern in PATTERNS:
        if (found := pattern.match(clause)) and (wish := wish_of(verb, found, quoted)):
            return wish
    return Wish("unknown", unmask(clause, quoted))


def wish_of(verb: str, found: re.Match[str], quoted: Sequence[str]) -> Wish | None:
    """Return the wish of a sentence, or None where a group is not what its name says.

    `file` and `files` must look like paths (`it` is the one named before), `place` and `to` may be any; a `glob` may
    stand behind a folder; `line` is a line of a file; a `command` with signs of the shell is one line for it.
    """
    said, parts = unmask(found.group(0), quoted), {name: text or "" for name, text in found.groupdict().items()}
    named = {name: unmask(text, quoted) for name, text in parts.items()}
    words = read_paths(parts.get("files", ""), quoted)
    if not all(name == "it" or is_path_like(name) or "\x00" in parts["files"] for name in words):
        return None
    target = read_path(parts["file"], quoted) if parts.get("file") else "it" if verb == "docstring" else ""
    if target not in ("", "it") and not is_path_like(target):
        return None
    if "url" in parts and not named["url"].startswith(("http://", "https://")):
        return None
    text = named.get("text", "") or end_line(named.get("line", ""))
    target = target or named.get("url", "") or (read_path(parts["place"], quoted) if "place" in parts else "")
    match verb:
        case "sweep":
            folder, _, text = named.get("glob", "*.log").rpartition("/")
            target = folder or target
        case "run":
            return command_of(said, parts["command"], quoted)
        case "remember":
            target = named["name"] or "-".join(re.findall(r"[a-z0-9]+", text.casefold())[:4]) or "note"
    return Wish(
        verb, said, target, text, read_path(parts["to"], quoted) if "to" in parts else named.get("other", ""), words
    )


def command_of(said: str, text: str, quoted: Sequence[str]) -> Wish | None:
    """Return the wish to run a command, a line for the shell where it holds such signs outside quotes."""
    whole = MARK.fullmatch(text)
    line = unmask(text, quoted) if whole else MARK.sub(lambda mark: shlex.quote(quoted[int(mark.group(1))]), text)
    if _SHELL & set(line if whole else MARK.sub("", text)):
        return Wish("shell", said, text=line)
    try:
        words = tuple(shlex.split(line))
    except ValueError:
        return None
    return Wish("run", said, words=words) if words else None


def with_context(wishes: Sequence[Wish]) -> list[Wish]:
    """Return wishes where `it` stands for the path named just before; where there is none, it is not understood."""
    result: list[Wish] = []
    named = ""
    for wish in wishes:
        if wish.target == "it" or wish.words == ("it",):
            changes = {"target": named} if wish.target == "it" else {"words": (named,)}
            wish = replace(wish, **changes) if named else Wish("unknown", wish.said)
        result.append(wish)
        last = wish.other if wish.verb == "move" else wish.target
        named = next(filter(is_path_like, (last, *wish.words)), named)
    return result
