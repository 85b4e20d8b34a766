"""A line for the shell taken apart: every simple command in it, whatever it is nested in, and every redirection."""

from __future__ import annotations

import re
from typing import NamedTuple

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_BASH = Language(tree_sitter_bash.language())
_LONGEST = 4096
"""Bytes of a line that are parsed: the parser's time grows with the square of what it cannot understand."""
_DEEPEST = 60
_PLAIN = bytes.maketrans(bytes(range(0x80, 0x100)), b"." * 0x80)
"""A letter that means nothing to the shell in place of those beyond ASCII: for such the grammar's C code reads behind
the end of a table (`isalnum`), and the process is gone. The places stay the same, so that words stay as they are."""
_GLOB = re.compile(r"[*?\[]|\{[^}]*(?:,|\.\.)")
_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\\n])')
_SCOPES = ("subshell", "command_substitution", "process_substitution", "pipeline")
"""What runs in a shell of its own, so that a `cd` in it ends with it."""
_PERHAPS = ("if_statement", "while_statement", "for_statement", "c_style_for_statement", "case_statement")
"""What may not run at all, so that nobody knows the folder after a `cd` in it."""
_WORDS = ("word", "string", "raw_string", "concatenation", "number", "simple_expansion", "expansion")
_REDIRECTS = ("file_redirect", "herestring_redirect", "heredoc_redirect")


class Segment(NamedTuple):
    """One simple command: its words with the program first, and where it runs.

    A word is None where only the shell knows it: a variable, a pattern of file names, the output of a command.
    `folder` is relative to where the line runs, "" there, None where it is not known. `variables` are set for it.
    """

    words: tuple[str | None, ...]
    folder: str | None = ""
    variables: tuple[str, ...] = ()


class Redirection(NamedTuple):
    """Where a stream comes from or goes to: the operator, and the file or descriptor, None where it is not known."""

    operator: str
    target: str | None
    folder: str | None = ""


class CommandLine(NamedTuple):
    """What a line consists of; `problem` says why not all of it could be read. `functions` are those it defines."""

    segments: tuple[Segment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    functions: frozenset[str] = frozenset()
    problem: str = ""


def parse_command_line(line: str, folder: str | None = "") -> CommandLine:
    """Return the parts of a line for the shell, as far as they can be told apart; nothing raises.

    >>> parse_command_line("cd src && grep -c x *.py").segments[1]
    Segment(words=('grep', '-c', 'x', None), folder='src', variables=())
    """
    source = line.encode("utf-8", "replace")
    if len(source) > _LONGEST or b"\0" in source:
        return CommandLine(problem="the line is too long to be read, or holds a null byte")
    reader = _Reader(source, folder)
    root = Parser(_BASH).parse(source.translate(_PLAIN)).root_node
    if root.has_error:
        reader.problem = "the line is not understood"
    reader.visit(root, 0)
    return CommandLine(tuple(reader.segments), tuple(reader.redirections), frozenset(reader.functions), reader.problem)


class _Reader:
    """Walks the tree of a line in the order in which it runs, and keeps the folder that `cd` leads to."""

    def __init__(self, source: bytes, folder: str | None) -> None:
        self._source, self._folder = source, folder
        self.segments: list[Segment] = []
        self.redirections: list[Redirection] = []
        self.functions: set[str] = set()
        self.problem = ""

    def visit(self, node: Node, depth: int) -> None:
        if depth > _DEEPEST:
            self.problem = "the line is nested too deeply"
            return
        before = self._folder
        match node.type:
            case "command":
                self._add_command(node, (), depth)
            case "redirected_statement":
                self._add_redirected(node, depth)
            case "declaration_command" | "unset_command" | "test_command":
                self._add_builtin(node, depth)
            case "function_definition":
                self.functions.add(self._get_text(node.named_children[0]))
                self._visit_inside(node, depth)
                self._folder = before  # it runs where it is called
            case "variable_assignment":
                self._visit_inside(node, depth)
                self._add_segment((":",), (self._get_name(node),))
            case kind if kind in _REDIRECTS:
                self._add_redirect(node, depth)
            case kind:
                self._visit_inside(node, depth)
                if kind in _SCOPES:
                    self._folder = before
                elif kind in _PERHAPS and self._folder != before:
                    self._folder = None

    def _visit_inside(self, node: Node, depth: int) -> None:
        for child in node.named_children:
            self.visit(child, depth + 1)

    def _add_command(self, node: Node, further: tuple[Node, ...], depth: int) -> None:
        """Add a simple command; `further` are words of it that stand behind a redirection."""
        words: list[Node] = []
        variables: list[str] = []
        for child in node.named_children:
            if child.type in _REDIRECTS:
                words += self._add_redirect(child, depth)
            elif child.type == "variable_assignment":
                variables.append(self._get_name(child))
                self._visit_inside(child, depth)
            else:
                words.append(child)
                self.visit(child, depth + 1)
        self._add_segment(tuple(self._read_word(word) for word in (*words, *further)), tuple(variables))

    def _add_segment(self, words: tuple[str | None, ...], variables: tuple[str, ...] = ()) -> None:
        self.segments.append(Segment(words, self._folder, variables))
        if words[:1] in (("cd",), ("pushd",), ("popd",)):
            named = [word for word in words[1:] if word is None or not word.startswith("-")]
            self._folder = join_folder(self._folder, named[0]) if len(named) == 1 else None

    def _add_builtin(self, node: Node, depth: int) -> None:
        """Add `export`, `unset` or a test, which the grammar knows as commands of their own kinds."""
        self._visit_inside(node, depth)
        words = (self._read_word(leaf) for leaf in _list_words(node))
        self._add_segment((self._get_text(node.children[0]), *words))

    def _add_redirected(self, node: Node, depth: int) -> None:
        body, further = node.child_by_field_name("body"), []
        for child in node.named_children:
            if child.type in _REDIRECTS:
                further += self._add_redirect(child, depth)
        if body is not None and body.type == "command":
            self._add_command(body, tuple(further), depth)
            return
        if further:
            self.problem = "words stand behind a redirection of more than one command"
        if body is not None:
            self.visit(body, depth + 1)

    def _add_redirect(self, node: Node, depth: int) -> list[Node]:
        """Add a redirection; return the words behind it, which belong to the command."""
        self._visit_inside(node, depth)
        if node.type == "herestring_redirect":
            return []
        if node.type == "heredoc_redirect":
            text = self._get_text(node)
            if "`" in text and not text.lstrip("<- ").startswith(("'", '"', "\\")):
                self.problem = "a text in the line may run something"  # the grammar does not look into it
            if not all(self._get_text(child).isascii() for child in node.children if child.type == "heredoc_start"):
                self.problem = "where a text in the line ends is not known"  # for other letters are all alike here
            return [child for child in node.named_children if child.type in _WORDS]
        operator = next((child.type for child in node.children if not child.is_named), "")
        targets = [child for child in node.named_children if child.type != "file_descriptor"]
        target = self._read_word(targets[0]) if targets else "-"  # `2>&-` closes a stream
        self.redirections.append(Redirection(operator, target, self._folder))
        return targets[1:]

    def _read_word(self, node: Node) -> str | None:
        text = self._get_text(node)
        match node.type:
            case "command_name" if node.named_children:
                return self._read_word(node.named_children[0])
            case "word" | "number" | "variable_name" | "test_operator" | "command_name":
                bare = _ESCAPED.sub("", text)
                if text.startswith("~") or _GLOB.search(bare):
                    return None
                return _ESCAPED.sub(lambda found: "" if found[1] == "\n" else found[1], text)
            case "raw_string":
                return text[1:-1]
            case "string" if all(child.type == "string_content" for child in node.named_children):
                return _ESCAPED_IN_QUOTES.sub(lambda found: "" if found[1] == "\n" else found[1], text[1:-1])
            case "concatenation":
                parts = [self._read_word(child) for child in node.named_children]
                plain = "".join(self._get_text(c) for c in node.named_children if c.type == "word")
                known = "".join(part for part in parts if part is not None)
                return None if None in parts or _GLOB.search(_ESCAPED.sub("", plain)) else known
        return None

    def _get_name(self, assignment: Node) -> str:
        return self._get_text(assignment).partition("=")[0].removesuffix("+")

    def _get_text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _list_words(node: Node) -> list[Node]:
    """Return the words in the expressions of a test, or behind `export`; what is assigned is none."""
    found: list[Node] = []
    for child in node.named_children:
        if child.type != "variable_assignment":
            found += [child] if child.type in _WORDS else _list_words(child)
    return found


def join_folder(folder: str | None, name: str | None) -> str | None:
    """Return the folder a name leads to from another one, None where either is not known."""
    if folder is None or name is None or name == "-":
        return None
    return name if name.startswith("/") or not folder else f"{folder}/{name}"
