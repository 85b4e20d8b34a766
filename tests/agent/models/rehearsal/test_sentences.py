"""What the rehearsal model understands: sentences and the wishes they mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.agent.models.rehearsal_reading import Wish, understand


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("read a.txt", Wish("read", "", words=("a.txt",))),
        ("show me a.txt, b.txt and src/c.py", Wish("read", "", words=("a.txt", "b.txt", "src/c.py"))),
        ("list files", Wish("list", "", ".")),
        ("list files in .", Wish("list", "", ".")),
        ("ls src", Wish("list", "", "src")),
        ('search for "def main" in src', Wish("search", "", "src", "def main")),
        ("what is in this repository?", Wish("overview", "")),
        ("Wait. Just tell me, in words: what is in this repository?", Wish("overview", "")),
        ("explain src/a.py", Wish("read", "", words=("src/a.py",))),
        ("what is in README.md?", Wish("read", "", words=("README.md",))),
        ("Read the main.rs file", Wish("read", "", words=("main.rs",))),
        ("Check if there are uncommitted changes, and if so, commit them", Wish("commit_if", "")),
        ("Add a docstring to the main() function in main.py", Wish("docstring", "", "main.py", "main")),
        ("Debug the failing integration test", Wish("debug", "")),
        ("debug this test failure", Wish("debug", "")),
        ("run the failing test", Wish("test", "")),
        ('replace "a; then b" with "c" in x.txt', Wish("replace", "", "x.txt", "a; then b", "c")),
        ("in x.txt, replace 'a' with 'b'", Wish("replace", "", "x.txt", "a", "b")),
        ("Please fix the typo recieve -> receive in x.txt.", Wish("replace", "", "x.txt", "recieve", "receive")),
        ("create notes/a.md with 'hello'", Wish("write", "", "notes/a.md", "hello\n")),
        ('write "hello" to a.md', Wish("write", "", "a.md", "hello\n")),
        ('append "more" to a.md', Wish("append", "", "a.md", "more\n")),
        ("create a folder docs", Wish("create_directory", "", "docs")),
        ("delete a.txt", Wish("delete", "", words=("a.txt",))),
        ("delete the stale logs in logs/", Wish("sweep", "", "logs/", "*.log")),
        ("delete *.tmp in build", Wish("sweep", "", "build", "*.tmp")),
        ("delete build/*.tmp", Wish("sweep", "", "build", "*.tmp")),
        ("rename a.txt to b.txt", Wish("move", "", "a.txt", other="b.txt")),
        ("run python3 check.py --fast", Wish("run", "", words=("python3", "check.py", "--fast"))),
        ('run echo "a b"', Wish("run", "", words=("echo", "a b"))),
        ("run ls | wc -l", Wish("shell", "", text="ls | wc -l")),
        ('commit everything with message "Tidy, and go"', Wish("commit", "", text="Tidy, and go")),
        ('commit a.txt and b.txt with message "m"', Wish("commit", "", text="m", words=("a.txt", "b.txt"))),
        ("push main to origin", Wish("push", "", "origin", "main")),
        ('send "It is done." to ann@example.org', Wish("send", "", "ann@example.org", "It is done.")),
        ("read the mail", Wish("mail", "")),
        ("git status", Wish("status", "")),
        ("show the diff", Wish("diff", "")),
        ("remember that the sky is blue", Wish("remember", "", "the-sky-is-blue", "the sky is blue")),
        ("remember colour: blue", Wish("remember", "", "colour", "blue")),
        ("recall sky", Wish("recall", "", text="sky")),
        ('delegate "read a.txt; read b.txt"', Wish("delegate", "", text="read a.txt; read b.txt")),
        ("fetch http://localhost:1/x", Wish("fetch", "", "http://localhost:1/x")),
        ("help", Wish("help", "")),
        ("hello", Wish("greet", "")),
        ("clean this up", Wish("vague", "")),
        ("delete everything", Wish("vague", "")),
        ("frobnicate the thing", Wish("unknown", "")),
        ("run it's", Wish("unknown", "")),
    ],
)
def test_a_sentence_means_this_wish(text: str, wish: Wish) -> None:
    (found,) = understand(text).wishes
    assert replace(found, said="") == wish


@pytest.mark.parametrize("joint", ["; ", ", then ", " and then ", ", ", " and ", "\n- ", ". Then ", ";\n2. "])
def test_wishes_in_one_message_are_taken_in_order(joint: str) -> None:
    request = understand(f'replace "a" with "b" in x.txt{joint}delete y.log{joint}commit everything with message "m"')
    assert [wish.verb for wish in request.wishes] == ["replace", "delete", "commit"]


def test_a_function_without_a_file_is_in_the_file_named_before() -> None:
    first, second = understand("Read main.py and add docstring to the main() function").wishes
    assert (first.words, second.verb, second.target) == (("main.py",), "docstring", "main.py")
    (alone,) = understand("add a docstring to main").wishes
    assert alone.verb == "unknown"


def test_a_copy_is_of_the_text_sent_before() -> None:
    _, second = understand('send "It is done." to ann@example.org, and send a copy to ben@example.org').wishes
    assert (second.verb, second.target, second.text) == ("send", "ben@example.org", "It is done.")
    (alone,) = understand("send a copy to ben@example.org").wishes
    assert alone.verb == "unknown"


@pytest.mark.parametrize(
    "text",
    ["just tell me what is in this repository", "in words only: what is in this project?", "write a poem"],
)
def test_a_request_for_words_is_seen_as_one(text: str) -> None:
    assert understand(text).words_only


@given(st.text(max_size=300) | st.from_regex(r"(read|delete|run|commit|replace) [\"'`a-z.;, \n]{0,60}", fullmatch=True))
def test_any_text_is_understood_as_something(text: str) -> None:
    assert all(wish.verb for wish in understand(text).wishes)
