"""Commands that are said only to read, and could change something, run anything or reach further."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foregate.policy.commands_section import CommandEntry, Commands
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import matches_text
from foregate.policy.source.strict_yaml import escape_text
from foregate.tuning.lint_settings import Remark

_PAGERS = ("less", "more", "most", "zless", "zmore", "bzless", "xzless", "bat", "batcat", "pg")
_STARTS = {
    **dict.fromkeys(_PAGERS, "starts programs by what is typed there or stands behind a `+`"),
    "ldd": "may start the program it is given",
}
"""What programs start that only show something; `commands.reads` has them, as a sandbox holds what they start."""
_DOES = {
    "open_ended": "may go on to run anything",
    "wrappers": "runs other programs",
    "deletes": "deletes",
    "installs": "installs",
}
"""Per list of `commands`, what its entries do that is no reading."""
_YOUR_WORD = "on your word alone"
_UNASKED = "and where nothing holds it, it runs unasked"


def find_open_reads(policy: Policy, default: Policy) -> Iterator[Remark]:
    """Yield each entry of `commands.read_only` by which something other than a read may run.

    What `default` lists is known to read only.
    """
    usual = default.commands.read_only
    for program, entry in policy.commands.read_only.items():
        if entry == usual.get(program):
            continue
        path = ("commands", "read_only", program)
        if len(program.split()) > 1:
            first, *rest = program.split()
            why = f"no program is called `{escape_text(program)}`, so it lists nothing"
            yield path, f"{why}; write `{escape_text(first)}: {{subcommands: [{escape_text(rest[0])}], options: []}}`"
        elif program in usual:
            yield from ((path, why) for why in _find_widened(program, entry, usual[program], policy.commands))
        else:
            found = (_explain_words(words, entry, policy.commands) for words in _list_commands(program, entry))
            yield from ((path, why) for why in found if why)


def _find_widened(program: str, entry: CommandEntry, usual: CommandEntry, commands: Commands) -> Iterator[str]:
    """Yield what an entry lets through beyond the usual one of that program."""
    further = [one for one in (*entry.options, *entry.valued) if one not in (*usual.options, *usual.valued)]
    name, reads = escape_text(program), program in commands.reads and not _find_list(program, commands)
    if work := [one for one in further if reads and _is_work(one, program, commands)]:
        yield _describe_work(name, work)
    if further and not reads:
        why = f"that `{name} {escape_text(' '.join(further))}` changes nothing is {_YOUR_WORD}"
        yield f"{why}: the default policy lists no such option"
    if entry.operands and not usual.operands:
        yield f"that `{name}` changes nothing whatever words it is given is {_YOUR_WORD}; say `operands: false`"
    beneath = [one for one in entry.options if _reads_beneath(one, usual) and one not in entry.beneath]
    if beneath:
        shown = escape_text(" ".join(beneath))
        yield f"`{name} {shown}` reads what is in folders, secrets too: list it in `beneath` as well"


def _describe_work(name: str, work: Sequence[str]) -> str:
    shown = escape_text(" ".join(work))
    return f"`{name} {shown}` changes something (`commands.reads`), and here it counts as a read"


def _reads_beneath(option: str, usual: CommandEntry) -> bool:
    """Whether an option lets a program read what is in folders, itself or among other letters."""
    letters = {one[1:].lower() for one in usual.beneath if len(one) == 2}
    if option.startswith("--"):
        return bool(usual.beneath) and "recursive" in option
    return any(letter in letters for letter in option[1:].lower())


def _list_commands(program: str, entry: CommandEntry) -> list[str]:
    """Return the leading words of the commands that an entry is about."""
    return [f"{program} {word}" for word in entry.subcommands] or [program]


def _explain_words(leading: str, entry: CommandEntry, commands: Commands) -> str:
    """Return why a command with these leading words may do more than read, "" where nothing tells so."""
    name = escape_text(leading)
    options = [*entry.options, *entry.valued]
    if (listed := _find_list(leading, commands)) and (entry.operands or options):
        advice = "leave it out" if " " in leading else "list its reading subcommands, or leave it out"
        return f"`{name}` {_DOES[listed]} (`commands.{listed}`), and here it counts as a read; {advice}"
    # Else what follows would be the subcommand.
    given = entry.valued if entry.subcommands else options
    if ran := [one for one in given if _is_run(one, leading, commands)]:
        return f"`{name} {escape_text(ran[0])}` runs what it is given (`commands.code`), and here it counts as a read"
    if leading in _STARTS:
        return f"`{name}` {_STARTS[leading]}, and here it counts as a read; leave it out"
    reads = commands.reads.get(leading)
    if reads is None:
        why = f"that `{name}` changes nothing is {_YOUR_WORD}: `commands.reads` has no such command, {_UNASKED}"
        wants = any(_begins(f"{one} ...", leading) for one in commands.access)
        return f"{why}; it reaches beyond this machine, too (`commands.access`)" if wants else why
    if work := [one for one in options if _is_work(one, leading, commands)]:
        return _describe_work(name, work)
    if entry.operands and reads.operands is not None:
        most = f"more operands than {reads.operands}" if reads.operands else "operands"
        return f"`{name}` with {most} changes something (`commands.reads`), and here it counts as a read"
    if entry.operands and reads.patterns:
        return f"`{name}` may change something by its words (`commands.reads`), and here it counts as a read"
    return ""


def _find_list(leading: str, commands: Commands) -> str:
    """Return the list of `commands` that tells of leading words that they are no mere reading, "" for none."""
    listed: dict[str, Sequence[str]] = {"open_ended": commands.open_ended}
    listed |= {name: [f"{one} ..." for one in getattr(commands, name)] for name in ("wrappers", "deletes", "installs")}
    return next((name for name, entries in listed.items() if any(_begins(one, leading) for one in entries)), "")


def _begins(listed: str, leading: str) -> bool:
    """Whether a command's plain words are those of an entry, or go on from those of one that ends in `...`."""
    entry, words = ([word for word in said.split() if not word.startswith("-")] for said in (listed, leading))
    whole = entry[-1:] != ["..."]
    entry = entry if whole else entry[:-1]
    fits = all(matches_text(glob, word) for glob, word in zip(entry, words, strict=False))
    return fits and (len(entry) == len(words) if whole else len(entry) <= len(words))


def _is_work(option: str, leading: str, commands: Commands) -> bool:
    """Whether an option makes a command that usually reads a change, also cut short or among other letters."""
    reads = commands.reads.get(leading)
    return reads is not None and any(_is_same_option(option, work) for work in reads.work)


def _is_same_option(option: str, known: str) -> bool:
    if option == known:
        return True
    if known.startswith("--"):
        name = option.partition("=")[0]
        return len(name) > 2 and known.startswith(name)
    short = len(known) == 2 and known[0] == "-"
    return short and option[:1] == "-" and option[:2] != "--" and known[1] in option[1:] and option != "-#"


def _is_run(option: str, leading: str, commands: Commands) -> bool:
    """Whether a program runs what stands behind an option."""
    entries = (entry.split() for entry in commands.code)
    known = (one for entry in entries if _stands_before(entry, leading) for one in entry if one[:1] == "-" != one)
    return any(_is_same_option(option, one) for one in known)


def _stands_before(entry: Sequence[str], leading: str) -> bool:
    """Whether a command begins with the plain words of an entry of `commands.code`."""
    names, words = [word for word in entry if word[:1] not in ("-", "<", ".")], leading.split()
    return len(names) <= len(words) and all(map(matches_text, names, words))
