"""What a session has observed and changed, newest first, per resource and kind, and who said a name first.

Names are the paths, URLs, hosts, addresses, identifiers and long numbers of every incoming text.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Atom, Change, EvidenceKind, EvidenceRecord, EvidenceSeen, Origin
from foregate.schemas.tool_spec import Resource, ResourceKind

REMEMBERED = 256
"""Contradictions a session remembers; older ones stay in the log."""

_COMPOUND = (ResourceKind.DIRECTORY, ResourceKind.REPOSITORY)
"""What changes when something in it does."""


@dataclass(eq=False)
class Ledger:
    """The newest evidence per resource and kind, which changes were looked at since, and what contradicts what."""

    _seen: dict[Resource, dict[EvidenceKind, EvidenceSeen]] = field(default_factory=dict)
    _changed: dict[Resource, int] = field(default_factory=dict)
    _last_change: int = 0
    _unseen: int = 0
    contradictions: list[tuple[Resource, int, int]] = field(default_factory=list)
    """Pairs of records of one resource that disagree without a change of ours between (earlier, later event)."""

    def record_evidence(
        self,
        seq: int,
        records: Iterable[EvidenceRecord],
        changes: Iterable[Change],
        *,
        may_have_changed: bool = False,
        at: str = "",
    ) -> None:
        """Take in what event `seq` observed and changed, at a UTC time.

        `may_have_changed` says that it may have changed more.

        What is gone, or lay in a folder that is gone, is no longer known.
        """
        for change in changes:
            self._changed[change.resource] = self._last_change = seq
            if not change.after:
                self._forget_resource(change.resource)
        if may_have_changed:
            self._unseen = self._last_change = seq
        for record in records:
            self._note_contradiction(seq, record)
            seen = EvidenceSeen(record.kind, seq, record.hash, record.trust, record.origin, record.own_change, at)
            self._seen.setdefault(record.resource, {})[record.kind] = seen

    def forget_all(self, seq: int) -> None:
        """Know nothing any more of what was observed, as of event `seq`: the workspace is another folder now."""
        self._seen.clear()
        self._unseen = self._last_change = seq

    def newest_records(self, resource: Resource) -> tuple[EvidenceSeen, ...]:
        """Return the newest record of each kind on exactly this resource."""
        return tuple(self._seen.get(resource, {}).values())

    def is_observed_since_change(self, resource: Resource) -> bool:
        """Whether the last change of the resource was followed by an observation of it (an own read-back counts)."""
        changed = self._changed.get(resource, 0)
        return any(seen.seq >= changed for seen in self.newest_records(resource))

    def resources(self) -> Mapping[Resource, tuple[EvidenceSeen, ...]]:
        """Return everything known, for display."""
        return {resource: tuple(kinds.values()) for resource, kinds in self._seen.items()}

    def _note_contradiction(self, seq: int, record: EvidenceRecord) -> None:
        """Note when a record disagrees with the newest one that can be compared and nothing of ours explains it."""
        if record.own_change or not record.hash:
            return
        compound, seen = record.resource.kind in _COMPOUND, self.newest_records(record.resource)
        if not seen:
            return
        comparable = (one for one in seen if one.hash and (one.kind is record.kind or not compound))
        earlier = max(comparable, key=lambda one: one.seq, default=None)
        explained = max(self._changed.get(record.resource, 0), self._unseen, self._last_change if compound else 0)
        if earlier is not None and earlier.hash != record.hash and explained <= earlier.seq < seq:
            self.contradictions.append((record.resource, earlier.seq, seq))
            del self.contradictions[:-REMEMBERED]

    def _forget_resource(self, resource: Resource) -> None:
        self._seen.pop(resource, None)
        if resource.kind is ResourceKind.DIRECTORY:
            beneath = f"{resource.id}/"
            for inner in [known for known in self._seen if resource.id == "." or known.id.startswith(beneath)]:
                if inner.kind in (ResourceKind.FILE, ResourceKind.DIRECTORY):
                    del self._seen[inner]


@dataclass(eq=False)
class Written:
    """The arguments of the calls of a session that may have changed something, each with the event that ended it.

    What such a call wrote is nothing that a later read could find out, wherever it comes back from. `is_cut` says that
    there was more than is kept.
    """

    texts: list[tuple[int, str]] = field(default_factory=list)
    is_cut: bool = False
    _left: int = 4 * 1024 * 1024

    def add(self, seq: int, arguments_raw: str) -> None:
        """Keep the arguments of a call that ended with event `seq`."""
        self._left -= len(arguments_raw)
        self.is_cut = self._left < 0
        if not self.is_cut:
            self.texts.append((seq, arguments_raw))

    def forget_events(self, seq: int) -> None:
        """Have all of it end with event `seq`: those it ended with are events of another session."""
        self.texts = [(seq, text) for _, text in self.texts]


WINDOW = 64 * 1024
"""Characters at each end of a text that are cut into atoms."""
BOUND = 50_000
"""Atoms a session remembers."""
SIZE = 4 * 1024 * 1024
"""Characters of all atoms together a session remembers."""
LONGEST = 160
"""Characters of an atom; a longer word keeps its beginning and a digest of itself."""
SHORT = 512
"""Characters of an argument that may be a name; longer ones are content, looked through for outside names only."""

# "src/a.py" in "(see src/a.py)".
_WORD = compile_late(r"[^\s\"'`<>()\[\]{},;|\x00-\x1f]{2,}")
# "/" in "src/a", "2026", "eF" in "readFile": a word without such a sign names nothing.
_NAMING = compile_late(r"[./@:_\\-]|\d{4}|[a-z][A-Z]")
# "https://example.org" in "https://example.org/a".
_URL = compile_late(r"([a-z][a-z0-9+.-]*)://([^/?#]+)", re.IGNORECASE)
# "=" in "path=a.py", ":" in "a.py:3".
_PART = compile_late(r"[:=]")
_TRUST = {origin: rank for rank, origin in enumerate(Origin)}
_EXTERNAL = Origin.EXTERNAL
_SHOWN_FIRST = (Origin.EXTERNAL, Origin.NOBODY, Origin.WORKSPACE, Origin.USER)
Mention = tuple[Origin, int]
"""The most trusted origin of an atom and the event that brought it."""


@dataclass(eq=False)
class AtomTable:
    """A side table rebuilt from events; O(new text) on arrival, O(arguments) per turn, bounded in memory.

    Beyond its bounds the least trusted and oldest atoms go first; but each origin keeps an eighth, so that neither a
    flood from outside drives out what the user said, nor a large repository what came from outside.
    """

    bound: int = BOUND
    size: int = SIZE
    _heard: dict[Origin, OrderedDict[str, int]] = field(default_factory=lambda: {one: OrderedDict() for one in Origin})
    _characters: dict[Origin, int] = field(default_factory=lambda: dict.fromkeys(Origin, 0))
    _told: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return sum(map(len, self._heard.values()))

    def add_text(self, text: str, origin: Origin, seq: int, *, content: bool = False, whole: bool = False) -> None:
        """Take in a text; an atom keeps its most trusted origin and the event that first brought it in that trust.

        `content` says that the text is what stands in a file: what only such texts name is `told`. `whole` makes a
        short text known as one name, too, whatever words it has.
        """
        name = [shorten_word(fold_word(text.strip()))] if whole and text.strip() and len(text) <= SHORT else []
        for atom in chain(find_known_words(text, every_word=origin is Origin.USER), name):
            known = self._find_origin(atom)
            if not content:
                self._told.discard(atom)
            elif known is None:
                self._told.add(atom)
            if known is not None:
                if _TRUST[known] <= _TRUST[origin]:
                    continue
                del self._heard[known][atom]
                self._characters[known] -= len(atom)
            self._heard[origin][atom] = seq
            self._characters[origin] += len(atom)
            while len(self) > self.bound or sum(self._characters.values()) > self.size:
                self._forget_oldest()

    def forget_events(self, seq: int) -> None:
        """Have all of it said by event `seq`: those that said it are events of another session."""
        for atoms in self._heard.values():
            atoms.update(dict.fromkeys(atoms, seq))

    def find_atom(self, name: str) -> Atom:
        """Return who said a name; `nobody` when no text of the session holds it.

        A path nobody said as a whole counts as said when its folder and its last part were, a URL when its host was:
        by the less trusted of the two.
        """
        word, text = fold_word(name), name if len(name) <= LONGEST else shorten_word(name)
        atom = word if len(word) <= LONGEST else shorten_word(word)
        if (heard := self._find_whole(atom) or self._find_by_halves(word)) is None:
            return Atom(text, Origin.NOBODY)
        return Atom(text, *heard, atom in self._told)

    def is_known_whole(self, name: str) -> bool:
        """Whether a text of the session holds exactly this name, not only its parts."""
        return self._find_whole(fold_word(name)) is not None

    def find_argument_atoms(
        self, arguments: Mapping[str, Json], names: Iterable[str] = (), *, limit: int = 32, size: int = 3000
    ) -> tuple[Atom, ...]:
        """Return the names in a call's arguments with who said each first: the outside ones first, then nobody's.

        `names` are looked up as well, such as the resources the call turned out to touch. At most `limit` atoms of
        `size` characters together are returned; what is left out is what is trusted most.
        """
        found: dict[str, Atom] = {}
        for name in names:
            if name:
                found[name] = self.find_atom(name)
        outside = self._heard[_EXTERNAL]
        for text in find_strings(arguments):
            brief = len(text) <= SHORT
            # A long text is content, and only what came from outside is looked for in it.
            for name in _find_short_names(text) if brief else find_long_names(text) if outside else ():
                if name not in found and (brief or name in outside):
                    found[name] = self.find_atom(name)
        kept: dict[str, Atom] = {}
        for atom in [atom for origin in _SHOWN_FIRST for atom in found.values() if atom.origin is origin]:
            size -= len(atom.text) + 40
            if len(kept) >= limit or size < 0:
                break
            kept.setdefault(atom.text, atom)
        return tuple(kept.values())

    def _find_by_halves(self, name: str) -> Mention | None:
        """Return who said the parts a name is known by: the host of a URL, the folder and the last part of a path."""
        if (url := match_url(name)) is not None:
            parts: tuple[str, ...] = (url.group(2),)
        else:
            folder, _, last = name.strip("/").rpartition("/")
            if not folder:
                return None
            parts = (folder, last)
        found = [self._find_whole(part) for part in parts]
        known = [heard for heard in found if heard is not None]
        if not known or len(known) < len(found):
            return None
        return max(known, key=lambda heard: (_TRUST[heard[0]], heard[1]))

    def _find_whole(self, atom: str) -> Mention | None:
        atom = atom if len(atom) <= LONGEST else shorten_word(atom)
        for origin, atoms in self._heard.items():
            if (seq := atoms.get(atom)) is not None:
                return origin, seq
        return None

    def _find_origin(self, atom: str) -> Origin | None:
        for origin, atoms in self._heard.items():
            if atom in atoms:
                return origin
        return None

    def _forget_oldest(self) -> None:
        """Forget one atom: the oldest of the least trusted origin that holds more than its share."""
        for origin in reversed(Origin):
            atoms = self._heard[origin]
            if len(atoms) > self.bound // 8 or self._characters[origin] > self.size // 8:
                oldest, _ = atoms.popitem(last=False)
                self._told.discard(oldest)
                self._characters[origin] -= len(oldest)
                return


def find_known_words(text: str, *, every_word: bool) -> Iterator[str]:
    """Yield what the two ends of a text make known: naming words, their parts, and words that have a line of their own,
    as in a listing. `every_word` takes all words, as when a person says `the build folder`."""
    text = text if len(text) <= 2 * WINDOW else f"{text[:WINDOW]} {text[-WINDOW:]}"
    for match in _WORD.finditer(text):
        raw = match.group()
        if names := names_in_word(raw):
            yield from names
            continue
        start, end = match.span()
        alone = text[max(0, start - 1) : start] in ("", "\n") and text[end : end + 1] in ("", "\n", "\r")
        if (every_word or alone) and len(word := fold_word(raw)) > 1:
            yield shorten_word(word)


def names_in_word(raw: str) -> tuple[str, ...]:
    """Return what a word of a text names: itself and its parts, nothing for a word that is no name."""
    return _read_names(raw) if len(raw) > LONGEST else _names_again(raw)


def _read_names(raw: str) -> tuple[str, ...]:
    if _NAMING.search(raw) is None:
        return ()
    word = fold_word(raw)
    return (shorten_word(word), *find_inner_names(word)) if len(word) > 1 else ()


_names_again = lru_cache(maxsize=1024)(_read_names)
"""The same names stand in the calls, the results and the targets of one turn after the other."""


def find_inner_names(word: str) -> Iterator[str]:
    """Yield the names inside a word: the host of a URL, `path` of `path:12`, `value` of `key=value`, diff prefixes."""
    if (url := match_url(word)) is not None:
        host = url.group(2).rpartition("@")[2]
        yield from (shorten_word(host), shorten_word(host.partition(":")[0]))
        return
    for name in map(fold_word, _PART.split(word)):
        if name != word and len(name) > 1:
            yield shorten_word(name)
        # A diff puts these in front of a file's two paths: "a/src/a.py", "b/src/a.py".
        if name[:2] in ("a/", "b/") and len(name) > 3:
            yield shorten_word(name[2:])


def find_long_names(text: str) -> Iterable[str]:
    """Return the names of a long argument: its naming words with their parts."""
    return chain.from_iterable(names_in_word(match.group()) for match in _WORD.finditer(text))


@lru_cache(maxsize=256)
def _find_short_names(text: str) -> tuple[str, ...]:
    """Return the names of a short argument, and the whole of it when it is one word. The last ones are remembered: a
    call names the path the last one named, and takes away what that put."""
    whole = (shorten_word(fold_word(text.strip())),) if len(text.split(None, 1)) == 1 else ()
    # So no word of it is a name.
    if _NAMING.search(text) is None:
        return whole
    return (*whole, *chain.from_iterable(map(names_in_word, _WORD.findall(text))))


def fold_word(word: str) -> str:
    """Return a word without a sentence's punctuation, `./` in front and `/` behind; hosts and mail in lower case."""
    word = word.rstrip(".,:!?").removeprefix("./").rstrip("/")
    if "://" in word and (url := match_url(word)) is not None:
        return url.group().lower() + word[url.end() :]
    return word.lower() if "@" in word and "/" not in word else word


def match_url(word: str) -> re.Match[str] | None:
    """Return the scheme and host a word begins with, None for a word that is no URL."""
    return _URL.match(word) if "://" in word else None


def shorten_word(word: str) -> str:
    """Return a word, or for a long one its beginning and digest: different words stay different."""
    if len(word) <= LONGEST:
        return word
    digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{word[: LONGEST - 33]}~{digest}"


def find_strings(value: Json) -> list[str]:
    """Return the strings of a value, keys left out."""
    stack, found = [value], []
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, (dict, Mapping)):
            stack.extend(reversed(list(item.values())))
        elif isinstance(item, list):
            stack.extend(reversed(item))
    return found
