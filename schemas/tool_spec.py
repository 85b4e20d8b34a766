"""What is known of a tool before it is called: what it can do, and which tools of other agents do the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.schemas import strict_json
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.noun import Noun
from foregate.schemas.strict_json import Json

ANY = "*"
"""In `ForeignTool.idle`: whatever the value is, it means nothing."""


class ResourceKind(StrEnum):
    """The kinds of things; `process` is a command's argument vector."""

    FILE = "file"
    DIRECTORY = "directory"
    REPOSITORY = "repository"
    URL = "url"
    HOST = "host"
    PROCESS = "process"
    MESSAGE = "message"
    OTHER = "other"


class Resource(Noun, frozen=True, order=True):
    """A kind and a canonical id: a path relative to the workspace, a URL, an argument vector as shell words."""

    kind: ResourceKind
    id: str

    def __str__(self) -> str:
        return self.id


class Effect(StrEnum):
    """The effect of one concrete call. Definition order is strength: the later, the more dangerous."""

    OBSERVATION = "observation"
    CREATE = "create"
    EDIT = "edit"
    MOVE = "move"
    DELETE = "delete"
    COMMIT = "commit"
    SEND = "send"
    EXECUTE = "execute"
    ADMINISTER = "administer"
    UNKNOWN = "unknown"

    def __init__(self, word: str) -> None:
        self.changes = word != "observation"
        """Whether the effect is anything but an observation."""

    def covers(self, other: Effect) -> bool:
        """Whether leave for this effect is leave for `other`: delete covers edit, edit covers create.

        Nothing covers `unknown`, not even itself: only the exact digest of a call does.
        """
        if other is Effect.UNKNOWN or self is Effect.UNKNOWN:
            return False
        return self is other or other in _COVERED.get(self, ())


def worse_of(first: Effect, second: Effect) -> Effect:
    """Return the more dangerous of two effects."""
    return first if _STRENGTH[first] >= _STRENGTH[second] else second


_STRENGTH = {effect: rank for rank, effect in enumerate(Effect)}
_COVERED = {Effect.EDIT: (Effect.CREATE,), Effect.DELETE: (Effect.EDIT, Effect.CREATE)}


class Capabilities(Noun, frozen=True):
    """Seven flags. The default is the worst: mutating, external, irreversible, at most once, needs approval."""

    read_only: bool = False
    external_side_effect: bool = True
    needs_approval: bool = True
    idempotent: bool = False
    high_impact_write: bool = False
    reversible: bool = False
    personal_memory: bool = False

    def raise_by(self, other: Capabilities) -> Capabilities:
        """Return the riskier of both, flag by flag: a second opinion may raise a risk, never lower it."""
        tame = ("read_only", "idempotent", "reversible", "personal_memory")
        pairs = {flag: (getattr(self, flag), getattr(other, flag)) for flag in self.__struct_fields__}
        return Capabilities(**{flag: all(pair) if flag in tame else any(pair) for flag, pair in pairs.items()})


UNDECLARED = Capabilities()
OBSERVER = Capabilities(
    read_only=True, external_side_effect=False, needs_approval=False, idempotent=True, reversible=True
)


class TargetParameter(Noun, frozen=True):
    """A parameter that names a resource, and what the call would do to it.

    `access` is an effect; `create` turns into `edit` where the thing exists already. A list of strings names
    several resources. `default` is the id used when the parameter is missing ("" = no resource then).
    """

    parameter: str
    kind: ResourceKind
    access: Effect
    default: str = ""


Nature = Literal["reads", "undoable", "final", "sends", "grave", "each", "void", "unsaid"]
"""What a person says a tool does, from least to worst; `each`, `void` and `unsaid` say nothing of it.

- `reads`: it only reads; `undoable`: it changes what can be taken back; `final`: what cannot be taken back;
- `sends`: it sends, or reaches outside; `grave`: it pays, or has other high impact;
- `each`: the person wants to be asked each time; `void`: they said something, and the definition has changed since;
- `unsaid`: they said only which fields of its results are own.
"""


OwnFields = tuple[str, ...] | Literal["all"]
"""Which fields of a tool's records its own system assigns, so that nobody outside can write there: some by their names,
or all."""


class Declaration(Noun, frozen=True):
    """What a person said of a tool that says nothing reliable of itself, by the parameters of the call they saw.

    `values` are the parameters that bind beside the others, `own` the fields of its results that its system assigns.
    `hash` is that of the definition it holds for, `at` when it was given (UTC text), `by` the user, "" for nobody.
    """

    nature: Nature
    hash: str
    targets: tuple[TargetParameter, ...] = ()
    amounts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    at: str = ""
    by: str = ""
    own: OwnFields = ()


class ToolSpec(Noun, frozen=True):
    """Name, description, JSON Schema of the arguments, and what the tool declares of itself.

    `provenance` is `builtin`, `python`, `mcp:<server>` or `remote`. Declarations of the first two count as the
    operator's own; others can only raise a risk. `capabilities` None means undeclared: the worst. `amounts` names the
    parameters that say how much, `texts` those that are free text; all others bind. `own` names the fields of its
    records that its own system assigns, such as an id; `destination` tells that what it sends stays with the operator,
    as a ticket to their own staff does. `definition` is the hash of all an MCP server says of the tool; `declared` is
    what the person said of it.
    """

    name: str
    description: str
    parameters: Mapping[str, Json]
    effect: Effect = Effect.UNKNOWN
    capabilities: Capabilities | None = None
    targets: tuple[TargetParameter, ...] = ()
    provenance: str = "python"
    timeout: int = 120
    hints: Mapping[str, bool] = field(default_factory=dict)
    amounts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    own: OwnFields = ()
    destination: Literal["", "own"] = ""
    definition: str = ""
    declared: Declaration | None = None

    @property
    def is_own(self) -> bool:
        """Whether the operator's own program declares this tool, so that its declaration is believed."""
        return self.provenance in ("builtin", "python")

    @property
    def may_need_somebody(self) -> bool:
        """Whether somebody may have to stand behind a call; of built-in tools only behind one that takes an address."""
        reached = {ResourceKind.URL, ResourceKind.HOST}
        return self.provenance != "builtin" or not reached.isdisjoint([target.kind for target in self.targets])

    @property
    def may_be_declared(self) -> bool:
        """Whether a person may say at a sheet what the tool does: not of a runtime's tool, which nothing tells from
        that of another runtime."""
        return self.provenance not in ("builtin", "remote")

    @property
    def is_elsewhere(self) -> bool:
        """Whether what the tool touches lies where it runs and not in the session's workspace."""
        return self.provenance == "remote"


Catalogue = Mapping[str, ToolSpec]
"""The tools of a session, by name, in the order they are offered."""


def build_catalogue(specs: tuple[ToolSpec, ...] | list[ToolSpec]) -> dict[str, ToolSpec]:
    """Return the catalogue; raise ValueError where two tools share a name."""
    catalogue: dict[str, ToolSpec] = {}
    for spec in specs:
        if spec.name in catalogue:
            raise ValueError(f"two tools are named `{spec.name}`; rename one")
        catalogue[spec.name] = spec
    return catalogue


def hash_definition(spec: ToolSpec) -> str:
    """Return the SHA-256 over what a tool is and says of itself, without what the person said of it."""
    return strict_json.digest(strict_json.dump(spec, exclude=frozenset({"declared", "timeout"})))


def hash_catalogue(catalogue: Iterable[ToolSpec]) -> str:
    """Return the SHA-256 over the recorded form of a catalogue."""
    return strict_json.digest([strict_json.dump(spec) for spec in catalogue])


class ForeignTool(Struct, frozen=True):
    """A tool of other agents; `tool` is ours.

    `parameters` leads from their names to ours, besides those in PARAMETERS. `differs` are names of ours that mean
    something else there. `idle` are parameters that mean nothing at the value given. `adds` is what the tool does
    without being told to, and ours only when told.
    """

    tool: str
    parameters: Mapping[str, str] = {}
    differs: frozenset[str] = frozenset()
    idle: Mapping[str, Json] = {}
    adds: Mapping[str, Json] = {}


_PATH = dict.fromkeys(("file_path", "filePath", "absolute_path", "target_file"), "path")
_FOLDER = dict.fromkeys(("directory", "dir_path", "relative_workspace_path"), "path")
_PLACE = dict.fromkeys(("workdir", "directory", "working_directory"), "cwd")
_OLD, _NEW = ("old_text", "old_string", "oldString", "old_str"), ("new_text", "new_string", "newString", "new_str")
PARAMETERS: Mapping[str, Mapping[str, str]] = {
    "read_file": _PATH,
    "write_file": {**_PATH, "text": "content", "file_text": "content"},
    "edit_file": {**_PATH, **dict.fromkeys(_OLD, "old"), **dict.fromkeys(_NEW, "new"), "unified_diff": "diff"},
    "list_files": _FOLDER,
    "create_directory": _FOLDER,
    "delete_path": _PATH,
    "search_text": {"query": "pattern", "include": "glob", "file_pattern": "glob"},
    "run_shell": {"cmd": "command", **_PLACE},
    "run_command": _PLACE,
}
"""What other agents call a tool's parameters, by our name of the tool."""

_SAID: Mapping[str, Json] = dict.fromkeys(("description", "explanation", "reasoning"), ANY)
_NOW: Mapping[str, Json] = {"run_in_background": False, "is_background": False, "isBackground": False, **_SAID}
# There it counts lines, here bytes.
_READ = ForeignTool("read_file", differs=frozenset(["offset"]), idle=_SAID)
_WRITE = ForeignTool("write_file", idle=_SAID)
_EDIT = ForeignTool("edit_file", idle={"replace_all": False, "replaceAll": False, "expected_replacements": 1, **_SAID})
_LIST = ForeignTool("list_files", idle=_SAID)
_GREP = ForeignTool("search_text", idle={"-n": ANY, "output_mode": "content", **_SAID}, adds={"regex": True})
_SHELL = ForeignTool("run_shell", idle=_NOW)
LINE = _SHELL
"""What `run_command` is where it has a line for a shell, as other agents' tools of that name take."""
_ARGV = ForeignTool("run_command", {"command": "argv"}, idle=_NOW)
_DELETE = ForeignTool("delete_path", differs=frozenset(["recursive"]), idle=_SAID)

TOOLS: Mapping[str, ForeignTool] = {
    "file_read": ForeignTool("read_file", idle=_SAID),
    **dict.fromkeys(("read", "view"), _READ),
    **dict.fromkeys(("file_write", "create_file", "write", "write_to_file"), _WRITE),
    **dict.fromkeys(("file_patch", "edit", "replace", "str_replace", "replace_string_in_file"), _EDIT),
    "apply_patch": replace(_EDIT, parameters={"patch": "diff"}),
    "fs_list": replace(_LIST, adds={"recursive": True}),
    **dict.fromkeys(("list_directory", "list_dir", "ls"), _LIST),
    # a pattern below a folder starts from the folder there, from the workspace here
    "glob": ForeignTool("list_files", {"pattern": "glob"}, frozenset(["path"]), _SAID, {"recursive": True}),
    **dict.fromkeys(("grep", "search_file_content"), _GREP),
    "search_files": replace(_GREP, parameters={"regex": "pattern"}),
    "search_code": ForeignTool("search_text", idle=_SAID),
    **dict.fromkeys(("shell_exec", "shell", "shell_command", "exec_command", "execute_bash"), _SHELL),
    **dict.fromkeys(("run_shell_command", "run_terminal_cmd", "run_in_terminal"), _SHELL),
    "bash": replace(_SHELL, parameters={"timeout": "timeout_ms"}, idle={"restart": False, **_NOW}),
    "local_shell": _ARGV,
    "proc_list": ForeignTool("list_processes"),
    "run_test": ForeignTool("run_tests"),
    **dict.fromkeys(("delete_file", "remove_file"), _DELETE),
    **dict.fromkeys(("mkdir", "create_dir", "make_directory"), ForeignTool("create_directory", idle=_SAID)),
    **dict.fromkeys(("move_file", "rename_file"), ForeignTool("move_path", idle=_SAID)),
    "curl": ForeignTool("http_request"),
}
"""Tools of other agents by their names in small letters."""

_EDITORS = ("str_replace_editor", "str_replace_based_edit_tool", "text_editor")
_BY_COMMAND: Mapping[str, ForeignTool] = {
    "view": replace(_READ, idle={"command": ANY, **_SAID}),
    "create": replace(_WRITE, idle={"command": ANY, **_SAID}),
    "str_replace": replace(_EDIT, idle={"command": ANY, **_SAID}, adds={"new": ""}),
}
"""What an editor that is one tool does, by its `command`."""
_NEAR: Mapping[str, str] = {
    **dict.fromkeys((*_EDITORS, "multi_edit", "multiedit", "replace_in_file", "patch"), "edit_file"),
    "execute_command": "run_command",
    "applypatch": "edit_file",
    **dict.fromkeys(("grep_search", "codebase_search", "find_in_files"), "search_text"),
    **dict.fromkeys(("file_search", "find_files"), "list_files"),
    **dict.fromkeys(("web_fetch", "webfetch", "fetch", "fetch_url"), "http_request"),
}
"""Tools of other agents with none of ours that does the same, each with the nearest."""
# "functions.bash", "mcp__files__read": only the last part says which tool is meant.
_SEPARATOR = compile_late(r"[./:]|__")
_LONGEST = 64


def find_foreign_tool(name: str, arguments: Mapping[str, Json]) -> ForeignTool | None:
    """Return what a tool of other agents is here for these arguments, None where the table has none."""
    known = spell_name(name)
    if known in _EDITORS:
        command = arguments.get("command")
        return _BY_COMMAND.get(command) if isinstance(command, str) else None
    found = TOOLS.get(known)
    return _ARGV if found is _SHELL and isinstance(arguments.get("command"), list) else found


def is_line(name: str, arguments: Mapping[str, Json]) -> bool:
    """Whether arguments of `run_command` are those of other agents: a line in `command`, and no words of our own."""
    return name == _ARGV.tool and isinstance(arguments.get("command"), str) and "argv" not in arguments


def list_meant_tools(name: str) -> frozenset[str]:
    """Return the tools of ours that a name of other agents can mean, whatever the arguments; none for one of ours."""
    known = spell_name(name)
    if known in PARAMETERS:
        return frozenset()
    if known in _EDITORS:
        return frozenset(tool.tool for tool in _BY_COMMAND.values())
    if known == "apply_patch":
        return frozenset(["edit_file", "write_file", "delete_path"])
    found = TOOLS.get(known)
    return frozenset([found.tool, *([_ARGV.tool] if found is _SHELL else [])] if found is not None else [])


def is_foreign_name(name: str) -> bool:
    """Whether other agents have a tool of this name."""
    known = spell_name(name)
    return known in TOOLS or known in _NEAR


def is_offered_elsewhere(name: str, offered: Iterable[str]) -> bool:
    """Whether a tool bears the name in other letters, or behind its server's: then that one may be meant."""
    known = spell_name(name)
    return any(known in (spell_name(tool), spell_name(_SEPARATOR.split(tool)[-1])) for tool in offered)


def find_nearest_tool(name: str, offered: Iterable[str]) -> str:
    """Return the tool that an unknown name most likely means, "" where none is near."""
    tools, known = list(offered), spell_name(name)
    bare = spell_name(_SEPARATOR.split(name[-_LONGEST:])[-1])
    for tool in tools:
        if spell_name(tool) in (known, bare) or spell_name(_SEPARATOR.split(tool)[-1]) in (known, bare):
            return tool
    for one in (known, bare):
        near = TOOLS[one].tool if one in TOOLS else _NEAR.get(one)
        if near in tools:
            return near
    from difflib import get_close_matches

    return next(iter(get_close_matches(name[:_LONGEST], tools, n=1)), "")


def spell_name(name: str) -> str:
    """Return a name as the table spells it: in small letters, with `_` for `-`."""
    return name[:_LONGEST].lower().replace("-", "_")
