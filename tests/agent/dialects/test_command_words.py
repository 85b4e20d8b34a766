"""A line as the words of one program: what a shell would do beyond that is refused with the way to say it."""

from __future__ import annotations

import shlex
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.dialects.tag_parameters import UnreadableTag, split_command, split_words


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("go mod tidy", ["go", "mod", "tidy"]),
        ("  ls -l  ", ["ls", "-l"]),
        ("grep -n 'a | b' \"c d\" e\\ f", ["grep", "-n", "a | b", "c d", "e f"]),
        ("find . -name *.py", ["find", ".", "-name", "*.py"]),
        ("echo '' \"\"", ["echo", "", ""]),
        ("grep 'x$' \"y$\" '$HOME'", ["grep", "x$", "y$", "$HOME"]),
        ('printf "a\\"b\\\\c\\$d"', ["printf", 'a"b\\c$d']),
        ("pytest \\\n  -q \\\r\n tests", ["pytest", "-q", "tests"]),
        ("echo 'two\nlines'", ["echo", "two\nlines"]),
        ("cat $result_of_step_1.items[0].path", ["cat", "$result_of_step_1.items[0].path"]),
        ("", []),
    ],
)
def test_a_line_is_split_as_a_shell_would_split_it(line: str, argv: list[str]) -> None:
    assert split_command(line, "execute_command") == argv


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("cat a | wc -l", "one by one"),
        ("make && make test", "one tag for each command"),
        ("make || true", "one tag for each command"),
        ("a; b", "one tag for each command"),
        ("sleep 1 &", "one tag for each command"),
        ("(cd x)", "one tag for each command"),
        ("cd x\nls", "more than one line"),
        ("echo hi > f", "write a file with a tag"),
        ("cmd 2>&1", "write a file with a tag"),
        ("cat <<EOF", "write a file with a tag"),
        ("wc < f", "write a file with a tag"),
        ("echo $HOME", "write the value itself"),
        ("echo ${X}", "write the value itself"),
        ("echo $(date)", "write the value itself"),
        ("echo `date`", "write the value itself"),
        ('echo "$(date)"', "write the value itself"),
        ('echo "`date`"', "write the value itself"),
        ("A=1 make", "the program `env`"),
        ("ls # all", "leave comments out"),
        ("echo 'a", "has no second half"),
        ('echo "a', "has no second half"),
        ("echo a\\", "has no second half"),
    ],
)
def test_what_only_a_shell_does_is_refused_with_the_way_to_say_it(line: str, says: str) -> None:
    with pytest.raises(UnreadableTag, match=says) as refused:
        split_command(line, "execute_command")
    assert "`<execute_command>`" in str(refused.value)


@given(st.lists(st.text(), min_size=1))
def test_words_that_were_quoted_come_back_as_they_were(argv: list[str]) -> None:
    assert split_words(shlex.join(argv), "files") == argv


@given(st.text())
def test_no_line_makes_splitting_fail_in_another_way(line: str) -> None:
    for read in (split_command, split_words):
        with suppress(UnreadableTag):
            assert all(isinstance(word, str) for word in read(line, "x"))


def test_in_a_list_of_texts_nothing_but_blanks_and_quotes_has_a_meaning() -> None:
    assert split_words("a;b 'c d'\n$HOME|x", "files") == ["a;b", "c d", "$HOME|x"]
