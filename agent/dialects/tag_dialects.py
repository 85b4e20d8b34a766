"""The dialects of tags: actions, each under the name people and models already use, and tools inside services."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from foregate.agent.dialects import tag_writer
from foregate.agent.dialects.dialect import COMMANDS, RESERVED, SERVICE_OF, SERVICES, Dialect, Names, Reader
from foregate.agent.dialects.tag_forms import Arguments, Finish, TagForm, build_foreign_form
from foregate.agent.dialects.tag_parameters import Shape
from foregate.agent.dialects.tag_reader import Grammar, TagReader
from foregate.agent.dialects.tag_writer import Spelling, build_spelling, render_rules
from foregate.agent.dialects.window import is_name
from foregate.schemas.message import Message
from foregate.schemas.tool_spec import ToolSpec

_Actions = Mapping[str, tuple[str, Mapping[str, str]]]
"""Tags with the tools they call, and the tags' names for parameters."""
_ACTIONS: dict[str, tuple[str, Mapping[str, str]]] = {
    "create_file": ("write_file", {}),
    "modify_file": ("edit_file", {"search": "old", "replace": "new"}),
    "read_file": ("read_file", {}),
    "create_directory": ("create_directory", {}),
    "execute_command": ("run_command", {"command": "argv"}),
    "delete_file": ("delete_path", {}),
    "git_commit": ("git_commit", {}),
    "git_push": ("git_push", {}),
    "run_tests": ("run_tests", {}),
    "search_replace": ("search_replace", {"path": "paths[]", "regex": "pattern", "replace": "replacement"}),
    "template": ("render_template", {"template_file": "template", "file": "template", "vars": "variables"}),
}
_WORDS = Shape({"type": "array", "items": {"type": "string"}}, {}, short=True)
_WORD = Shape({"type": "string"}, {}, short=True)
_ASIDE: Mapping[str, Mapping[str, Shape]] = {"git_commit": {"files": _WORDS}, "run_tests": {"package": _WORD}}
_EVERYTHING = ("", ".", "./", "...", "./...", "all")
_ACTIONS_INTRODUCTION = """\
To act, write tags into your answer, such as

<create_file>
<path>notes.txt</path>
<content>
first line
</content>
</create_file>

"""
_SERVICES_INTRODUCTION = """\
To act, think if you need to in <think>, then write tags: the service, in it the tool, in it each parameter, such as

<files>
<read_file>
<path>notes.txt</path>
</read_file>
</files>
<execute_tools />

A tool with one parameter that must be given may hold just its text, and parameters may be one JSON object. End with \
<execute_tools /> and wait for the results. When the work is done, write `Final Answer:` and then the answer.
"""


def _build_commit(arguments: Arguments) -> Sequence[tuple[str, Arguments]]:
    """Return the calls of a commit: staging the files it names, then the commit."""
    files = arguments.pop("files", None)
    if files is None:
        return [("git_commit", arguments)]
    where = {"path": arguments["path"]} if "path" in arguments else {}
    return [("git_add", {"paths": files, **where}), ("git_commit", arguments)]


def _build_test_run(arguments: Arguments) -> Sequence[tuple[str, Arguments]]:
    """Return the call that runs the tests of a package: those of its folder, `./...` being all there are."""
    package = arguments.pop("package", None)
    if isinstance(package, str) and package not in _EVERYTHING and "cwd" not in arguments:
        arguments["cwd"] = package.removeprefix("./").removesuffix("/...")
    return [("run_tests", arguments)]


_FINISH: Mapping[str, Finish] = {"git_commit": _build_commit, "run_tests": _build_test_run}


class ActionTags(Dialect):
    """The dialect of actions. With `shell` the tag `execute_command` is a line for `run_shell`.

    There is no `stop`: a result that a model makes up cannot be told beforehand from a file that holds the tag.
    """

    render_answers = staticmethod(tag_writer.render_answers)

    def __init__(self, names: Names | None = None, *, shell: bool = False) -> None:
        self._names = names or Names()
        actions = _ACTIONS | ({"execute_command": ("run_shell", {})} if shell else {})
        actions |= {tag: (tool, {}) for tag, tool in self._names.tags.items()}
        given = self._names.parameters
        self._actions = {tag: (tool, {**names, **given.get(tool, {})}) for tag, (tool, names) in actions.items()}

    def build_section(self, tools: Sequence[ToolSpec]) -> str:
        forms = _ActionGrammar(self._actions, self._names, tools).list_forms()
        return _ACTIONS_INTRODUCTION + render_rules([(form, "") for form in forms])

    def build_reader(self, tools: Sequence[ToolSpec]) -> Reader:
        return TagReader(_ActionGrammar(self._actions, self._names, tools))

    def render_message(self, message: Message) -> str:
        return tag_writer.render_message(message, self.find_spelling)

    def find_spelling(self, tool: str) -> Spelling | None:
        """Return how a tool is written: in the tag of its action, or in one of its own name."""
        if tool not in SERVICE_OF:
            return build_spelling(tool)
        tag = next((tag for tag, (ours, _) in self._actions.items() if ours == tool), tool)
        names = self._actions[tag][1] if tag in self._actions else self._names.parameters.get(tool, {})
        return Spelling(tag, "", names, COMMANDS.get(tool, ()))


class _ActionGrammar(Grammar):
    """The tags of actions for some tools."""

    def __init__(self, actions: _Actions, names: Names, tools: Sequence[ToolSpec]) -> None:
        self._actions, self._parameters = actions, names.parameters
        self._specs = {spec.name: spec for spec in tools}
        self.tags = tuple(dict.fromkeys((*actions, *self._specs)))
        cases = Counter(map(str.lower, self.tags))
        self._lower = {tag.lower(): tag for tag in self.tags if cases[tag.lower()] == 1}

    def find_form(self, name: str, service: str) -> TagForm | None:
        """Return what a tag calls, however its letters are cased."""
        known = self._find_form(name) or self._find_form(self._lower.get(name.lower(), ""))
        return known or build_foreign_form(name, self._specs)

    def _find_form(self, tag: str) -> TagForm | None:
        """Return what a tag calls: the tool of that name first; one in place of a built-in has its own names."""
        own, action = self._specs.get(tag), self._actions.get(tag)
        if own is not None and (action is None or action[0] != tag):
            return TagForm(tag, tag, own, self._parameters.get(tag, {}))
        if action is None:
            return None
        tool, names = action
        spec = self._specs.get(tool)
        if spec is not None and spec.provenance != "builtin":
            return TagForm(tag, tool, spec, self._parameters.get(tool, {}))
        return TagForm(tag, tool, spec, names, _ASIDE.get(tag, {}), _FINISH.get(tag))

    def list_forms(self) -> list[TagForm]:
        """Return the tag each tool is taught by: the action, or that of its own name."""
        forms = [form for tag in self.tags if (form := self._find_form(tag)) and form.spec]
        first = {form.tool: form for form in reversed(forms)}
        return [first[name] for name in self._specs if name in first]


class ServiceTags(Dialect):
    """The dialect of services. An MCP server is a service of its own name; `names` leads from other names to these."""

    stop = ("<execute_tools />", "<execute_tools/>", "</execute_tools>")
    """Not among them: `Final Answer:`, before whose answer generation would end, and tags that a file may hold."""
    render_answers = staticmethod(tag_writer.render_answers)

    def __init__(self, names: Names | None = None) -> None:
        self._names = names or Names()

    def build_section(self, tools: Sequence[ToolSpec]) -> str:
        forms = [(self._build_form(spec), self._find_service(spec.name)) for spec in tools]
        order = {service: place for place, service in enumerate(dict.fromkeys(service for _, service in forms))}
        rules = render_rules(sorted(forms, key=lambda one: (not one[1], order[one[1]])))
        return f"{_SERVICES_INTRODUCTION}\n{rules}"

    def build_reader(self, tools: Sequence[ToolSpec]) -> Reader:
        return TagReader(_ServiceGrammar(self._names, tools))

    def render_message(self, message: Message) -> str:
        return tag_writer.render_message(message, self.find_spelling)

    def find_spelling(self, tool: str) -> Spelling | None:
        """Return how a tool is written: in its service, or alone in a tag of its own name."""
        service = self._find_service(tool)
        if tool in SERVICE_OF:
            return Spelling(tool, service, self._names.parameters.get(tool, {}), COMMANDS.get(tool, ()))
        return Spelling(tool.removeprefix(f"{service}."), service, known=False) if service else build_spelling(tool)

    def _build_form(self, spec: ToolSpec) -> TagForm:
        spelling = self.find_spelling(spec.name)
        return TagForm(
            spelling.tag if spelling else spec.name, spec.name, spec, self._names.parameters.get(spec.name, {})
        )

    def _find_service(self, tool: str) -> str:
        """Return the service of a tool, "" for none: its name up to a dot, unless that would lead elsewhere."""
        if tool in SERVICE_OF:
            return SERVICE_OF[tool]
        server, dot, inner = tool.partition(".")
        usable = is_name(server) and is_name(inner) and server not in RESERVED and server not in SERVICES
        return server if dot and usable and server not in self._names.services and "." not in inner else ""


class _ServiceGrammar(Grammar):
    """The tags of services and of the tools in them, for some tools."""

    has_signals = has_services = True

    def __init__(self, names: Names, tools: Sequence[ToolSpec]) -> None:
        self._names = names
        self._specs = {spec.name: spec for spec in tools}
        servers = {name.partition(".")[0] for name in (*self._specs, *names.tools) if "." in name}
        self.services = {*SERVICES, *names.services, *servers}
        self.tags = tuple(dict.fromkeys((*self._specs, *names.tags, *self.services)))

    def find_form(self, name: str, service: str) -> TagForm | None:
        """Return what a tag calls: in a service always something, alone the tool of that name."""
        tool = self._find_tool(service, name) if service else self._names.tags.get(name, name)
        if not service and tool not in self._specs and name not in self._names.tags:
            return build_foreign_form(name, self._specs)
        if tool not in self._specs and (foreign := build_foreign_form(tool, self._specs)) is not None:
            return foreign
        return TagForm(name, tool, self._specs.get(tool), self._names.parameters.get(tool, {}))

    def _find_tool(self, service: str, name: str) -> str:
        """Return the tool of a service, or a name that says what was wanted, to be refused."""
        if mapped := self._names.tools.get(f"{service}.{name}"):
            return mapped
        ours = self._names.services.get(service, service)
        for tool in (name, f"{ours}_{name}"):
            if tool in SERVICES.get(ours, ()):
                return tool
        if ours in SERVICES and (foreign := build_foreign_form(name, self._specs)) is not None:
            return foreign.tool
        return f"{ours}.{name}" if f"{ours}.{name}" in self._specs else f"{service}.{name}"
