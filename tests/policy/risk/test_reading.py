"""What everyday and odd lines are expected to do, read from their words; a wrong answer costs a failed command."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foregate.policy.risk.command_line import parse_command_line
from foregate.policy.risk.reading import CommandReading, is_read, list_git_folders, read_command_line
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_call import Command
from tests.policies import policy_with

POLICY = default_policy()
LINES = Path(__file__).parent / "lines"
RANKS = ("read", "work", "outside")
SAMPLES = ["ls", "cat a.txt", "git log -3", "rm x", "make", "curl https://example.org/x", "grep -rn 'a b' src", "x=1"]


def read(line: str) -> CommandReading:
    return read_command_line(Command(shell=line), POLICY)


def lines(name: str) -> list[str]:
    """Return the lines of a table; one that begins with `#` is a heading, `\\n` in one is a new line."""
    found = (LINES / f"{name}.txt").read_text("utf-8").splitlines()
    return [line.replace("\\n", "\n") for line in found if line and not line.startswith("# ")]


@pytest.mark.parametrize("line", lines("reads"))
def test_an_everyday_line_that_only_looks_reads(line: str) -> None:
    found = read(line)
    assert (found.answer, found.reason) == ("read", "")


@pytest.mark.parametrize("line", lines("work"))
def test_a_line_that_changes_something_or_hides_what_it_does_is_work(line: str) -> None:
    found = read(line)
    assert found.answer == "work"
    assert found.reason


@pytest.mark.parametrize("line", lines("outside"))
def test_a_line_that_wants_something_outside_says_what(line: str) -> None:
    line, _, wanted = line.partition("  -> ")
    assert (read(line).answer, " ".join(map(str, read(line).access))) == ("outside", wanted)


def test_the_tables_are_long_enough_to_mean_something() -> None:
    assert len(lines("reads")) >= 150
    assert len(lines("work")) >= 150


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    assert read(text).answer in RANKS
    read_command_line(Command((text, text)), POLICY)


@given(
    st.sampled_from(["${", "$", "<<", "$((", "[[ ", "a=", ""]), st.characters(min_codepoint=0x80), st.text(max_size=9)
)
def test_no_letter_of_any_script_ends_the_process(before: str, letter: str, after: str) -> None:
    assert read(f"cat {before}{letter}{after}").answer in RANKS


def test_words_keep_the_letters_of_any_script() -> None:
    assert parse_command_line("cat 'ü 1.txt' 日.md > é").segments[0].words == ("cat", "ü 1.txt", "日.md")
    assert parse_command_line("cat a > é").redirections[0].target == "é"
    assert parse_command_line("é=1 cat").segments[0].words == ("é=1", "cat")  # the shell knows no such variable


def test_a_text_that_a_word_of_any_script_ends_hides_no_command_behind_it() -> None:
    assert read("cat <<é\nü\ncat <<X\né\nrm -rf x\nX\n").answer == "work"
    assert read("cat <<E\nü\nE\n").answer == "read"


_PIECES = st.sampled_from(
    ["$(", ")", "`", "<<E\n", "E\n", "'", '"', "{", "}", "|", "&&", ";", ">", "<", "ls", "rm", " ", "\n"]
)


@given(st.lists(_PIECES, max_size=60))
def test_no_mixture_of_syntax_raises(pieces: list[str]) -> None:
    assert read("".join(pieces)).answer in RANKS


@given(st.sampled_from(SAMPLES), st.sampled_from(["; ", " && ", " || ", " | ", " & ", "\n"]), st.sampled_from(SAMPLES))
def test_a_further_segment_never_makes_the_answer_milder(first: str, between: str, second: str) -> None:
    both = read(f"{first}{between}{second}")
    assert RANKS.index(both.answer) == max(RANKS.index(read(line).answer) for line in (first, second))


@given(st.lists(st.from_regex(r"[a-z0-9./_-]{1,8}", fullmatch=True), max_size=4), st.integers(0, 4))
def test_to_quote_a_word_changes_nothing(words: list[str], at: int) -> None:
    words = ["grep", *words]
    quoted = [f"'{word}'" if number == at else word for number, word in enumerate(words)]
    assert read(" ".join(quoted)) == read(" ".join(words))


@pytest.mark.parametrize("line", ["cat $ a", "cat a$ $", "cat 'a'$ \"$\"", "sh == a"])
def test_a_word_that_is_only_a_sign_is_a_word(line: str) -> None:
    parsed = parse_command_line(line)
    assert (parsed.segments[0].words, parsed.problem) == (tuple(shlex.split(line)), "")


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1), min_size=1))
@example(["cat", "==", ".env"])
@example(["cat", "=~", ".env"])
def test_the_words_of_a_quoted_line_are_those_that_were_quoted(words: list[str]) -> None:
    line = shlex.join(words)
    parsed = parse_command_line(line)
    if not parsed.problem and "\r" not in line:
        assert parsed.segments[0].words == tuple(words)


@pytest.mark.parametrize(
    "wrap", ["{}", "({})", "{{ {}; }}", "if true; then {}; fi", "for f in a; do {}; done", "echo $({})"]
)
@pytest.mark.parametrize(
    "wrap2", ["{}", "ls | {}", "while false; do {}; done", "case a in a) {};; esac", "! {}", "cat <({})"]
)
def test_what_a_line_is_nested_in_hides_nothing(wrap: str, wrap2: str) -> None:
    assert read(wrap.format(wrap2.format("rm x"))).answer == "work"
    assert read(wrap.format(wrap2.format("ls x"))).answer == "read"


@pytest.mark.parametrize(
    ("line", "operands"),
    [
        ("cat a.txt b/c.txt", ("a.txt", "b/c.txt")),
        ("cat -- -n", ("-n",)),
        ("cat < in.txt", ("in.txt",)),
        ("cd src && cat a.py", ("src", "src/a.py")),
        ("(cd src; cat a.py); cat b.py", ("src", "src/a.py", "b.py")),
        ("cd $X && cat a.py", ()),
        ("cat *.py ~/x $HOME", ()),
        ("grep -n /api a.py", ("a.py",)),
        ("grep -e /api a.py", ("a.py",)),
        ("sed -n '1,5p' a.py", ("a.py",)),
        ("find src tests -name '*.py'", ("src", "tests")),
        ("timeout 5 cat a.py", ("a.py",)),
        ("head -n 5 a.py", ("a.py",)),
        ("python3 x.py out", ("x.py", "out")),
    ],
)
def test_the_paths_a_line_names_are_its_operands(line: str, operands: tuple[str, ...]) -> None:
    assert read(line).operands == operands


def test_what_may_be_a_path_or_something_else_is_kept_apart() -> None:
    assert read("grep -n /api a.py").texts == ("/api",)
    assert read("git show HEAD:src/a.py").texts == ("HEAD:src/a.py", "src/a.py")


def test_the_folders_git_works_in_are_known() -> None:
    assert list_git_folders(read("git status; cd sub && git -C deep log; git -C $X diff")) == ["", "sub/deep"]


@pytest.mark.parametrize(("tier", "answer"), [("full", True), ("limited", True), ("none", False), ("", False)])
def test_the_long_list_holds_only_where_a_sandbox_holds_the_command(tier: str, answer: bool) -> None:
    assert is_read(Command(shell="grep -rn x | wc -l"), POLICY, tier) is answer  # type: ignore[arg-type]
    assert is_read(Command(("ls", "-la")), POLICY, tier)  # type: ignore[arg-type]


def test_the_policy_may_want_more_than_the_machine_has() -> None:
    strict = policy_with({"commands.confinement.read": "full"})
    assert not is_read(Command(shell="ls | wc"), strict, "limited")


@pytest.mark.parametrize(
    "argv",
    [
        (("ls", "|", "wc")),
        (("cat", "a", ">", "b")),
        (("ls", "a\0b")),
        (("./ls",)),
        (("/bin/ls",)),
        (("",)),
        (("sed", "-ni", "p", "x")),
        (("rm", "x")),
    ],
)
def test_an_argument_vector_is_read_like_a_line(argv: tuple[str, ...]) -> None:
    assert read_command_line(Command(argv), POLICY).answer == "work"


def test_a_command_with_a_problem_or_without_words_is_work() -> None:
    assert read_command_line(Command(problem="?"), POLICY).answer == "work"
    assert read_command_line(Command(("ls",), problem="?"), POLICY).answer == "work"
    assert read("").answer == read("# nothing").answer == "work"
