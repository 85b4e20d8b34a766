"""A line for the shell taken apart: every simple command in it, whatever it is nested in, and every redirection."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from foregate.schemas.late_pattern import compile_late

_BASH = Language(tree_sitter_bash.language())
_LONGEST = 4096
"""Bytes of a line that are parsed: the parser's time grows with the square of what it cannot understand."""
_DEEPEST = 60
_PLAIN = bytes.maketrans(bytes(range(0x80, 0x100)), b"." * 0x80)
"""A letter that means nothing to the shell in place of those beyond ASCII: for such the grammar's C code reads behind
the end of a table (`isalnum`), and the process is gone. The places stay the same, so that words stay as they are."""
# "*.py", "a[12]", "{a,b}", "{1..9}".
_GLOB = compile_late(r"[*?\[]|\{[^}]*(?:,|\.\.)")
# "\*" stands for a plain star; a backslash at the end of a line joins it with the next.
_ESCAPED = compile_late(r"\\(\n|.)", re.DOTALL)
# '\$': in double quotes a backslash means itself before any other character.
_ESCAPED_IN_QUOTES = compile_late(r'\\([$`"\\\n])')
_SCOPES = ("subshell", "command_substitution", "process_substitution")
"""What runs in a shell of its own, so that a `cd` in it ends with it."""
_PERHAPS = ("if_statement", "while_statement", "for_statement", "c_style_for_statement", "case_statement")
"""What may not run at all, so that the folder after a `cd` in it is unknown."""
_WORDS = ("word", "string", "raw_string", "concatenation", "number", "simple_expansion", "expansion")
_SIGNS = ("==", "=~", "$")
"""What may be a word, or the end of one, and has no name in the grammar."""
_REDIRECTS = ("file_redirect", "herestring_redirect", "heredoc_redirect")
STREAM = "/dev/fd/"
"""Where a command finds what another one writes for it: `<(...)` is such a file."""
_EXEC = ("exec",)
"""Alone it makes what it is given that of all commands behind it."""
_PRINTS = ("%s", "%s\\n", "%s\n")
"""Formats with which `printf` writes its words as they are."""
_ALONE = r"[\w./:@+%-]*"
_SET_PLAINLY = rf"={_ALONE}(?=[\s;&|)]|$)|=\$\{{\w+:?-{_ALONE}\}}| +in(?: +{_ALONE})+(?=[;\n])"
"""How a variable comes to be what one word says: by a value, by one it has unless it has another, in a loop."""
_SET_TO_WORDS = r"='[^'$`\\]*'(?=[\s;&|)]|$)"
"""How one comes to be some words that stand in the line."""
# "$HOME", "${HOME}", "${files[@]}".
_EXPANSION = compile_late(rf"\$(?:(\w+)|\{{(\w+)(?:\[[@*]\])?(?::?-{_ALONE})?\}})", re.ASCII)
_COMPUTES = ("$(", "`", "<(", "set --")


class Segment(NamedTuple):
    """One simple command: its words with the program first, and where it runs.

    A word is None where only the shell knows it: a variable, a pattern of file names, the output of a command.
    `folder` is relative to where the line runs, "" there, None where it is not known. `variables` are set for it.
    `input` is the text in the line that it reads, "" for none, None for one that only the shell knows. `splits` tells
    that its program is computed in the line, and may come to be several words.
    """

    words: tuple[str | None, ...]
    folder: str | None = ""
    variables: tuple[str, ...] = ()
    input: str | None = ""
    splits: bool = False


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


def parse_command_line(line: str, folder: str | None = "", given: str | None = "") -> CommandLine:
    """Return the parts of a line for the shell that reads `given`, as far as they can be told apart; nothing raises.

    >>> parse_command_line("cd src && grep -c x *.py").segments[1]
    Segment(words=('grep', '-c', 'x', None), folder='src', variables=(), input='', splits=False)
    """
    source = line.encode("utf-8", "replace")
    if len(source) > _LONGEST or b"\0" in source:
        return CommandLine(problem="the line is too long to be read, or holds a null byte")
    reader = _LineReader(source, folder, given)
    root = Parser(_BASH).parse(source.translate(_PLAIN)).root_node
    if root.has_error:
        reader.problem = "the line is not understood"
    reader.visit(root, 0)
    return CommandLine(tuple(reader.segments), tuple(reader.redirections), frozenset(reader.functions), reader.problem)


class _LineReader:
    """Walks the tree of a line in the order in which it runs, and keeps the folder that `cd` leads to."""

    def __init__(self, source: bytes, folder: str | None, given: str | None) -> None:
        self._source, self._folder, self._input = source, folder, given
        self._text = source.decode("utf-8", "replace")
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
            case "pipeline":
                # Each command of it runs in a shell of its own, so that no `cd` in it lasts.
                self._visit_pipeline(node, depth)
                self._folder = before
            case "declaration_command" | "unset_command" | "test_command":
                self._add_builtin(node, depth)
            case "function_definition":
                self.functions.add(self._get_text(node.named_children[0]))
                self._visit_inside(node, depth, None)
                # It runs where it is called, and reads what it is given there.
                self._folder = before
            case "variable_assignment":
                self._visit_inside(node, depth)
                self._add_segment((":",), (self._get_name(node),))
            case kind if kind in _REDIRECTS:
                self._add_redirect(node, depth)
            case "process_substitution" if self._get_text(node).startswith(">"):
                self._visit_inside(node, depth, None)
                self._folder = before
            case kind:
                self._visit_inside(node, depth)
                if kind in _SCOPES:
                    self._folder = before
                elif kind in _PERHAPS and self._folder != before:
                    self._folder = None

    def _visit_inside(self, node: Node, depth: int, *given: str | None) -> None:
        """Visit what is in a node; it reads what is `given`, or what the node reads."""
        before = self._input
        self._input = given[0] if given else before
        for child in node.named_children:
            self.visit(child, depth + 1)
        self._input = before

    def _visit_pipeline(self, node: Node, depth: int) -> None:
        before = self._input
        for child in node.named_children:
            self.visit(child, depth + 1)
            self._input = self._read_output(child)
        self._input = before

    def _read_output(self, node: Node) -> str | None:
        """Return what a command writes, None where that is not known: `echo` and `printf` write their words."""
        words = [self._read_word(child) for child in _list_parts(node)] if node.type == "command" else []
        known = [word for word in words if word is not None]
        if len(known) < max(len(words), 1):
            return None
        if known[0] == "printf" and known[1:2] and known[1] in _PRINTS:
            return "\n".join(known[2:])
        text = " ".join(known[1:])
        # These two read "%" and backslashes in ways of their own.
        return None if known[0] not in ("echo", "printf") or "%" in text or "\\" in text else text.removeprefix("-n ")

    def _find_input(self, redirects: Sequence[Node]) -> str | None:
        """Return what a command with these redirections reads of the line: the last one decides."""
        found = self._input
        for node in redirects:
            if node.type == "herestring_redirect":
                found = self._read_word(node.named_children[-1])
            elif node.type == "heredoc_redirect":
                found = self._read_document(node)
            elif (operator := self._get_text(node).lstrip("0123456789")).startswith("<"):
                # What a descriptor (`<&3`) or a program gives is known to the shell alone.
                known = not operator.startswith("<&") and node.named_children[-1].type != "process_substitution"
                found = "" if known else None
        return found

    def _read_document(self, node: Node) -> str | None:
        """Return a text that stands in the line, None where the shell puts something into it."""
        parts = {child.type: child for child in node.named_children}
        if (body := parts.get("heredoc_body")) is None:
            return None
        start, text = self._get_text(parts["heredoc_start"]), self._get_text(body)
        plain = all(child.type == "heredoc_content" for child in body.named_children) and not set("`\\") & set(text)
        return text if plain or start.startswith(("'", '"', "\\")) else None

    def _add_command(self, node: Node, further: tuple[Node, ...], depth: int) -> None:
        """Add a simple command; `further` are words of it that stand behind a redirection."""
        words: list[Node] = []
        variables: list[str] = []
        given = self._find_input([child for child in node.named_children if child.type in _REDIRECTS])
        for child in _list_parts(node):
            if child.type in _REDIRECTS:
                words += self._add_redirect(child, depth)
            elif child.type == "variable_assignment":
                variables.append(self._get_name(child))
                self._visit_inside(child, depth)
            else:
                words.append(child)
                self.visit(child, depth + 1)
        read = tuple(self._read_argument(word) for word in (*words, *further))
        self._add_segment(read, tuple(variables), given, bool(words) and self._may_split(words[0]))
        self._input = given if read == _EXEC else self._input

    def _add_segment(
        self,
        words: tuple[str | None, ...],
        variables: tuple[str, ...] = (),
        given: str | None = "",
        splits: bool = False,
    ) -> None:
        self.segments.append(Segment(words, self._folder, variables, given, splits))
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
        before = self._input
        self._input = self._find_input([child for child in node.named_children if child.type in _REDIRECTS])
        if body is not None and body.type == "command":
            self._add_command(body, tuple(further), depth)
            before = self._input if self._get_text(body) == "exec" else before
        elif body is not None:
            self.problem = self.problem or ("words stand behind a redirection of more than one command" * bool(further))
            self.visit(body, depth + 1)
        self._input = before

    def _add_redirect(self, node: Node, depth: int) -> list[Node]:
        """Add a redirection; return the words behind it, which belong to the command."""
        piped = node.type == "heredoc_redirect" and any(child.type == "pipeline" for child in node.named_children)
        self._visit_inside(node, depth, *([None] if piped else []))
        if node.type == "herestring_redirect":
            return []
        if node.type == "heredoc_redirect":
            text = self._get_text(node)
            if "`" in text and not text.lstrip("<- ").startswith(("'", '"', "\\")):
                # The grammar does not look into it.
                self.problem = "a text in the line may run something"
            if not all(self._get_text(child).isascii() for child in node.children if child.type == "heredoc_start"):
                # For other letters are all alike here.
                self.problem = "where a text in the line ends is not known"
            return [child for child in node.named_children if child.type in _WORDS]
        operator = next((child.type for child in node.children if not child.is_named), "")
        targets = [child for child in node.named_children if child.type != "file_descriptor"]
        # `2>&-` closes a stream.
        target = self._read_word(targets[0]) if targets else "-"
        self.redirections.append(Redirection(operator, target, self._folder))
        return targets[1:]

    def _may_split(self, node: Node) -> bool:
        """Whether a word computed in the line may come to be several: one in quotes does not, one known does not."""
        if node.type in ("simple_expansion", "expansion"):
            return self._is_computed(node)
        # "${a[@]}" and "$@" are as many words as there are.
        if node.type == "string":
            inner = [child for child in node.named_children if self._get_text(child).rstrip("}]").endswith("@")]
            return any(map(self._may_split, inner))
        inside = node.type in ("command_name", "concatenation") and any(map(self._may_split, node.named_children))
        return inside or node.type == "command_substitution"

    def _is_computed(self, expansion: Node) -> bool:
        """Whether what a variable comes to be is not known to be one word, or to be words that stand in the line.

        One that the line never names otherwise is one of those that a command sees, or is empty. With other text beside
        it, words that stand in the line are not those that it comes to be.
        """
        # IFS says where words are split, and a line that names it may set it.
        if (found := _EXPANSION.fullmatch(self._get_text(expansion))) is None or "IFS" in self._text:
            return self._get_text(expansion) != "$@" or any(mark in self._text for mark in _COMPUTES)
        name = found[1] or found[2]
        if name.isdigit():
            return any(mark in self._text for mark in _COMPUTES)
        named = re.findall(rf"(?<![\w$])(?<!\$\{{){name}(?!\w)", self._text)
        alone = expansion.parent is None or expansion.parent.type != "concatenation"
        plain = f"{_SET_PLAINLY}|{_SET_TO_WORDS}" if alone else _SET_PLAINLY
        return len(re.findall(rf"(?<![\w$]){name}(?:{plain})", self._text)) < len(named)

    def _read_argument(self, node: Node) -> str | None:
        return f"{STREAM}63" if node.type == "process_substitution" else self._read_word(node)

    def _read_word(self, node: Node) -> str | None:
        text = self._get_text(node)
        match node.type:
            case "command_name" if node.named_children:
                return self._read_word(node.named_children[0])
            case kind if kind in _SIGNS:
                return text
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
                parts = [self._read_word(child) for child in _list_parts(node)]
                plain = "".join(self._get_text(c) for c in node.named_children if c.type == "word")
                known = "".join(part for part in parts if part is not None)
                return None if None in parts or _GLOB.search(_ESCAPED.sub("", plain)) else known
        return None

    def _get_name(self, assignment: Node) -> str:
        return self._get_text(assignment).partition("=")[0].removesuffix("+")

    def _get_text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _list_parts(node: Node) -> list[Node]:
    """Return what a simple command or a word of several parts consists of, also what is only a sign."""
    return [child for child in node.children if child.is_named or child.type in _SIGNS]


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
