"""The sentences of the rehearsal model's grammar: a pattern each, and the wish it makes.

A pattern sees a clause in which every quoted passage is one mark. Patterns are tried in order; a maker may decline.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from foregate.agent.models.rehearsal.wish import MARK, Verb, Wish, ended, looks_like_path, path, paths, plain

_SHELL = frozenset("|&;<>$`*?~(){}\n")
_GLOB = frozenset("*?[")

Groups = Sequence[str]
Maker = Callable[[Groups, Sequence[str], str], "Wish | None"]


def _simple(verb: Verb) -> Maker:
    return lambda groups, quoted, said: Wish(verb, said)


def _replace(groups: Groups, quoted: Sequence[str], said: str) -> Wish:
    old, new, target = groups
    return Wish("replace", said, path(target, quoted), plain(old, quoted), plain(new, quoted))


def _half_fix(groups: Groups, quoted: Sequence[str], said: str) -> Wish | None:
    named = path(groups[-1], quoted)
    if not looks_like_path(named):
        return None
    return Wish("ask_how", said, named, "what to replace, and with what; say: replace A with B in " + named)


def _write(groups: Groups, quoted: Sequence[str], said: str) -> Wish | None:
    target, text = groups
    if not looks_like_path(path(target, quoted)):
        return None
    return Wish("write", said, path(target, quoted), ended(plain(text, quoted)))


def _write_to(groups: Groups, quoted: Sequence[str], said: str) -> Wish | None:
    return _write((groups[1], groups[0]), quoted, said)


def _append(groups: Groups, quoted: Sequence[str], said: str) -> Wish | None:
    text, target = groups
    if not looks_like_path(path(target, quoted)):
        return None
    return Wish("append", said, path(target, quoted), ended(plain(text, quoted)))


def _paths(verb: Verb) -> Maker:
    def make(groups: Groups, quoted: Sequence[str], said: str) -> Wish | None:
        named = paths(groups[0], quoted)
        fit = all(looks_like_path(name) or name == "it" or "\x00" in groups[0] for name in named)
        return Wish(verb, said, words=named) if named and fit else None

    return make


def _delete(groups: Groups, quoted: Sequence[str], said: str) -> Wish | None:
    named = paths(groups[0], quoted)
    if len(named) == 1 and _GLOB & set(named[0]):
        folder, _, pattern = named[0].rpartition("/")
        return Wish("sweep", said, folder or ".", pattern)
    return _paths("delete")(groups, quoted, said)


def _sweep(groups: Groups, quoted: Sequence[str], said: str) -> Wish:
    return Wish("sweep", said, path(groups[0], quoted) if groups[0] else ".", "*.log")


def _sweep_pattern(groups: Groups, quoted: Sequence[str], said: str) -> Wish | None:
    pattern = plain(groups[0], quoted)
    return Wish("sweep", said, path(groups[1], quoted), pattern) if _GLOB & set(pattern) else None


def _target(verb: Verb) -> Maker:
    return lambda groups, quoted, said: Wish(verb, said, path(groups[0], quoted) if groups[0] else ".")


def _explain(groups: Groups, quoted: Sequence[str], said: str) -> Wish | None:
    named = path(groups[0], quoted)
    return Wish("explain", said, named) if looks_like_path(named) else None


def _move(groups: Groups, quoted: Sequence[str], said: str) -> Wish:
    return Wish("move", said, path(groups[0], quoted), other=path(groups[1], quoted))


def _search(groups: Groups, quoted: Sequence[str], said: str) -> Wish:
    return Wish("search", said, path(groups[1], quoted) if groups[1] else ".", plain(groups[0], quoted))


def _run(groups: Groups, quoted: Sequence[str], said: str) -> Wish | None:
    text = groups[0]
    whole = MARK.fullmatch(text)
    command = plain(text, quoted) if whole else MARK.sub(lambda mark: shell_word(quoted[int(mark.group(1))]), text)
    bare = plain(text, quoted) if whole else MARK.sub("", text)
    if _SHELL & set(bare):
        return Wish("shell", said, text=command)
    words = split(command)
    return Wish("run", said, words=words) if words else None


def shell_word(text: str) -> str:
    """Return a text as one word of a command line."""
    return shlex.quote(text)


def split(command: str) -> tuple[str, ...]:
    """Return the words of a command line, none when its quotes do not close."""
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return ()


def _commit(groups: Groups, quoted: Sequence[str], said: str) -> Wish:
    what, message = groups[0], groups[1] or groups[2]
    what = re.sub(
        r"^(?:everything|all|all changes|the changes|it|them|this|that)$", "", what.strip(), flags=re.IGNORECASE
    )
    if MARK.fullmatch(what) and not message:
        return Wish("commit", said, text=plain(what, quoted))
    text = plain(message, quoted)
    if not text:
        return Wish("ask_how", said, text='the message of the commit; say: commit everything with message "..."')
    return Wish("commit", said, text=text, words=paths(what, quoted) if what else ())


def _text(verb: Verb) -> Maker:
    return lambda groups, quoted, said: Wish(verb, said, text=plain(groups[0], quoted))


def _remember(groups: Groups, quoted: Sequence[str], said: str) -> Wish:
    text = plain(groups[1], quoted)
    name = plain(groups[0], quoted) or "-".join(re.findall(r"[a-z0-9]+", text.casefold())[:4])
    return Wish("remember", said, name or "note", text)


def _fetch(groups: Groups, quoted: Sequence[str], said: str) -> Wish | None:
    url = plain(groups[0], quoted)
    return Wish("fetch", said, url) if url.startswith(("http://", "https://")) else None


def _compiled(*rows: tuple[str, Maker]) -> tuple[tuple[re.Pattern[str], Maker], ...]:
    return tuple((re.compile(f"^{pattern}$", re.IGNORECASE), make) for pattern, make in rows)


_HERE = r"(?:this|the|my|our) (?:repository|repo|project|workspace|folder|directory|code|codebase)"
_TELL = r"(?:(?:tell me|explain|describe|summari[sz]e|show me) )?"
_FLAW = r"(?:typo|defect|error|bug|mistake|spelling)s?"
_BECOMES = r"(?:->|=>|to|into|with|by)"
_RID = r"(?:delete|remove|rm|erase)"
_LOGS = r"(?: the| all)*(?: stale| old)*(?: logs?| log files)"
_WITH = r"(?:with|containing|saying)(?: the)?(?: text| content)?:?"
_MESSAGE = r"(?:with|saying|as|using)(?: the| a)?(?: message)?:?"

PATTERNS = _compiled(
    (r"(?:help|\?|what can you do.*|what do you understand|who are you|what are you)", _simple("help")),
    (r"(?:hello|hi|hey|good (?:morning|evening|day)|thanks|thank you)(?: .{0,40})?", _simple("greet")),
    (rf"{_TELL}(?:what(?:'s| is) (?:in )?)?{_HERE}.*", _simple("overview")),
    (r"(?:look around|give me an overview.*|what (?:files )?(?:is|are) (?:in )?here)", _simple("overview")),
    (r"(?:git )?status|what (?:has )?changed", _simple("status")),
    (r"(?:show (?:me )?(?:the )?)?(?:git )?(?:diff|changes)", _simple("diff")),
    (r"(?:show (?:me )?(?:the )?)?(?:git )?(?:log|history|commits)", _simple("log")),
    (r"(?:list|ls|show)(?: me)?(?: all)?(?: the)? files(?: (?:in|of|under) (\S+))?", _target("list")),
    (r"what files are (?:there|in (\S+))", _target("list")),
    (r"(?:list|ls)(?: (?:the )?(?:folder |directory )?(\S+))?", _target("list")),
    (r"(?:search|grep|look|find)(?: for)? (.+?)(?: (?:in|under) (\S+))?", _search),
    (r"where is (.+?)(?: (?:in|under) (\S+))?", _search),
    (rf"(?:fix|correct)(?: the)? {_FLAW}[: ]+(.+?) {_BECOMES} (.+?) in (.+)", _replace),
    (rf"(?:replace|change|correct|update) (.+?) {_BECOMES} (.+?) in (.+)", _replace),
    (r"fix (.+?) (?:->|=>) (.+?) in (.+)", _replace),
    (rf"(?:fix|correct|update|edit|change|improve)(?: the)?(?: {_FLAW})?(?: in)? (\S+)", _half_fix),
    (r"(?:create|make|add) (?:a |the )?(?:new )?(?:folder|directory) (.+)", _target("create_directory")),
    (r"(?:append|add) (.+?) to (.+)", _append),
    (rf"(?:create|write|make|save)(?: an?| the)?(?: new)?(?: file)? (\S+)(?: {_WITH} (.+))?", _write),
    (r"(?:write|put|save) (.+?) (?:to|into|in) (.+)", _write_to),
    (rf"{_RID}{_LOGS}(?: (?:in|under|from) (.+))?", _sweep),
    (rf"{_RID}(?: the| all)? (\S+)(?: files)? (?:in|under|from) (.+)", _sweep_pattern),
    (rf"{_RID} (.+)", _delete),
    (r"(?:rename|move|mv) (.+?) (?:to|into|as) (.+)", _move),
    (r"(?:run|execute)(?: the)?(?: command)?:? (.+)", _run),
    (rf"commit(?: (.+?))??(?:,? {_MESSAGE} (.+)|: (.+))?", _commit),
    (r"(?:remember|note)(?: that)?:? (?:([^ :=]+)(?:: | = ))?(.+)", _remember),
    (r"(?:recall|what do you (?:remember|know))(?: (?:about |of )?(.+))?", _text("recall")),
    (r"delegate:? (.+)", _text("delegate")),
    (r"(?:fetch|get|download|open|read|show) (\S+)", _fetch),
    (r"(?:explain|describe|summari[sz]e)(?: what(?: is in)?)? (\S+)(?: (?:does|is|says))?", _explain),
    (r"(?:tell me )?what (?:is in|does|is) (\S+)(?: (?:do|say|contain))?", _explain),
    (r"(?:tell me )?what (\S+) (?:does|is|says|contains)", _explain),
    (r"what's in (\S+)", _explain),
    (r"(?:read|show|open|cat|view|print)(?: me)? (.+)", _paths("read")),
    (r"(?:clean|tidy|fix|sort|wipe|improve|make|do|get rid|throw|update|clear|change)\b.*", _simple("vague")),
    (rf"{_RID}\b.*", _simple("vague")),
)
