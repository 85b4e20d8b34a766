"""A Python function as a tool: its signature and docstring become the schema, its declared nature the capabilities."""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, get_type_hints, overload

from msgspec.structs import replace
from pydantic import ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.json_schema import PydanticJsonSchemaWarning
from pydantic_core import to_json

from foregate.agent.tools.docstring import read_docstring
from foregate.agent.tools.tool import Arguments, Classify, Tool
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, RuntimeLost, UsageError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.protocols import Inverse
from foregate.schemas.strict_json import Json, as_object
from foregate.schemas.tool_call import Origin, ToolResult
from foregate.schemas.tool_spec import (
    OBSERVER,
    UNDECLARED,
    Capabilities,
    Effect,
    OwnFields,
    ResourceKind,
    TargetParameter,
    ToolSpec,
)

P = ParamSpec("P")
R = TypeVar("R")
Targets = Mapping[str, str | ResourceKind] | Sequence[TargetParameter]
"""Which parameters name resources: their kind by name (the tool's effect is what happens to them), or in full."""

Check = Callable[[Arguments], dict[str, Any]]
"""Turns arguments into keyword arguments; raises ValidationError."""
_LOCAL = {ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.REPOSITORY}
"""Targets of these kinds alone make a function's result the workspace's words."""
# "read_file".
_NAME = compile_late(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")
_MAX_ERROR = 2000


class FunctionTool(Tool, Generic[P, R]):
    """A tool over a Python function; calling it calls the function."""

    __slots__ = ("__dict__", "function")

    def __init__(
        self, spec: ToolSpec, function: Callable[P, R], check: Check, classify: Classify | None, inverse: Inverse | None
    ) -> None:
        kinds = {target.kind for target in spec.targets}
        origin = Origin.WORKSPACE if kinds and kinds <= _LOCAL else Origin.EXTERNAL

        async def run(arguments: Arguments) -> ToolResult:
            result = await call_function(function, check, arguments)
            return replace(result, origin=origin) if result.origin is Origin.WORKSPACE else result

        super().__init__(spec, run, classify, inverse)
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "__doc__", function.__doc__)
        object.__setattr__(self, "__wrapped__", function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself; no gate is asked."""
        return cast(Callable[P, R], self.function)(*args, **kwargs)  # type: ignore[attr-defined]


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    function: None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect | str | None = None,
    read_only: bool = False,
    external: bool | None = None,
    needs_approval: bool | None = None,
    idempotent: bool | None = None,
    high_impact: bool | None = None,
    reversible: bool | None = None,
    personal_memory: bool = False,
    targets: Targets = (),
    amounts: Sequence[str] = (),
    texts: Sequence[str] = (),
    own: Sequence[str] | Literal["all"] = (),
    destination: Literal["", "own"] = "",
    timeout: int = 120,
    classify: Classify | None = None,
    inverse: Inverse | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect | str | None = None,
    read_only: bool = False,
    external: bool | None = None,
    needs_approval: bool | None = None,
    idempotent: bool | None = None,
    high_impact: bool | None = None,
    reversible: bool | None = None,
    personal_memory: bool = False,
    targets: Targets = (),
    amounts: Sequence[str] = (),
    texts: Sequence[str] = (),
    own: Sequence[str] | Literal["all"] = (),
    destination: Literal["", "own"] = "",
    timeout: int = 120,
    classify: Classify | None = None,
    inverse: Inverse | None = None,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a function, plain or async, a tool; use it bare or with what the function is known to do.

    What is not declared counts as the worst: an unknown effect, external, irreversible. `needs_approval` left open
    holds only for a tool that declares nothing. `read_only` declares that it only observes. `targets` names parameters
    that are resources, such as `{"path": "file"}`, `amounts` those that say how much, `texts` free text; others bind.
    `own` names the fields of its results that its own system assigns, such as an id, or is `"all"`: nobody outside can
    write there. `destination="own"`: what it sends stays with the operator. `classify` gets the arguments of a call and
    returns its effect where it is graver than the tool's. `inverse` has `now(id)` and `put_back(id, data)` for targets
    of the kind `other`, so that a call can be undone. `timeout` is in seconds. The docstring gives the description, and
    that of parameters (as Google, NumPy or Sphinx write it). Raises UsageError for a function that cannot be described,
    a parameter that is declared twice or does not exist, and an `own` that is neither.
    """
    flags = {"external_side_effect": external, "needs_approval": needs_approval, "idempotent": idempotent}
    flags |= {"high_impact_write": high_impact, "reversible": reversible}
    is_declared = bool(read_only or personal_memory or effect is not None or targets or amounts or texts)
    capabilities = _build_capabilities(flags, is_declared, read_only=read_only, personal_memory=personal_memory)

    def wrap(wrapped: Callable[P, R]) -> FunctionTool[P, R]:
        said = Effect(effect) if effect is not None else Effect.OBSERVATION if read_only else Effect.UNKNOWN
        parameters = read_parameters(wrapped)
        summary, notes = read_docstring(inspect.getdoc(wrapped) or "")
        schema, validate = build_schema(wrapped, parameters, notes)
        called_as = _check_name(name or wrapped.__name__)
        names = [parameter.name for parameter in parameters]
        named = build_targets(targets, said, names)
        about = description or summary or called_as.replace("_", " ")
        spec = ToolSpec(called_as, about, schema, said, capabilities, named, timeout=timeout)
        roles = {role: check_role(role, by, names, named) for role, by in (("amounts", amounts), ("texts", texts))}
        spec = replace(spec, own=check_own(own), destination=destination, **roles)
        return FunctionTool(spec, wrapped, validate, classify, inverse)

    return wrap if function is None else wrap(function)


def _check_name(name: str) -> str:
    if not _NAME.match(name):
        raise UsageError(f"`{name[:80]}` is no name for a tool; give one of letters, digits, `_` and `-`")
    return name


def _build_capabilities(
    flags: Mapping[str, bool | None], is_declared: bool, *, read_only: bool, personal_memory: bool
) -> Capabilities | None:
    """Return what a tool declares it can do, None where it declares nothing."""
    given = {name: flag for name, flag in flags.items() if flag is not None}
    if not given and not is_declared:
        return None
    # What is left open is the worst, or a reader's.
    base = OBSERVER if read_only else replace(UNDECLARED, needs_approval=False)
    return replace(base, personal_memory=personal_memory, **given)


def read_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, their types resolved; raise UsageError for one that cannot be called so."""
    if not hasattr(function, "__name__") or inspect.isasyncgenfunction(function):
        raise UsageError(f"`{_format_value(function)[:200]}` is no function that returns a value; write one around it")
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception as error:
        raise UsageError(f"the types of `{function.__name__}` cannot be resolved: {error}") from None
    found = []
    parameters = inspect.signature(function).parameters
    owner, name = getattr(function, "__qualname__", "").rpartition(".")[0], function.__name__
    if next(iter(parameters), "") == "self" and owner and not owner.endswith("<locals>"):
        raise UsageError(f"`{name}` is a method without its object; make the bound one a tool: `tool(thing.{name})`")
    for parameter in parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise UsageError(f"`{function.__name__}` takes `{parameter}`, which cannot be given by name; name it")
        found.append(parameter.replace(annotation=hints.get(parameter.name, Any)))
    return found


def build_schema(
    function: Callable[..., Any], parameters: Sequence[inspect.Parameter], notes: Mapping[str, str]
) -> tuple[Mapping[str, Json], Check]:
    """Return the JSON Schema of the arguments, and a function that turns arguments into keyword arguments."""
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(parameters):
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        field = Field(default, alias=parameter.name, description=notes.get(parameter.name))
        fields[f"p{number}"] = (parameter.annotation, field)
    config = ConfigDict(extra="forbid", strict=True)
    try:
        model = create_model(f"{function.__name__}_arguments", __config__=config, **fields)
        with warnings.catch_warnings():
            # A default that is no JSON is only left out.
            warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
            schema = as_object(strip_titles(model.model_json_schema(by_alias=True)))
    except PydanticUserError as error:
        why = error.message.splitlines()[0]
        raise UsageError(f"`{function.__name__}` has a parameter no JSON can describe: {why}"[:500]) from None

    def validate(arguments: Arguments) -> dict[str, Any]:
        checked = model.model_validate_json(strict_json.canonical(arguments))
        return {parameter.name: getattr(checked, f"p{number}") for number, parameter in enumerate(parameters)}

    return schema, validate


def strip_titles(schema: Json, names: bool = False) -> Json:
    """Return a schema without the titles generated from names; keys below `properties` are names and stay."""
    if isinstance(schema, list):
        return [strip_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: strip_titles(value, key in ("properties", "$defs") and not names)
        for key, value in schema.items()
        if names or key != "title"
    }


def build_targets(targets: Targets, effect: Effect, names: Sequence[str]) -> tuple[TargetParameter, ...]:
    """Return the target parameters; raise UsageError for one the function does not have."""
    if isinstance(targets, Mapping):
        targets = [TargetParameter(parameter, ResourceKind(kind), effect) for parameter, kind in targets.items()]
    found = tuple(targets)
    for target in found:
        if target.parameter not in names:
            raise UsageError(f"the target `{target.parameter}` is no parameter of the function; name one it has")
    return found


def check_role(
    role: str, given: Sequence[str], names: Sequence[str], targets: Sequence[TargetParameter]
) -> tuple[str, ...]:
    """Return the parameters of a role; raise UsageError for one the function does not have or that is a target."""
    for parameter in given:
        if parameter not in names:
            raise UsageError(f"`{parameter}` of `{role}` is no parameter of the function; name one it has")
        if any(target.parameter == parameter for target in targets):
            raise UsageError(f"`{parameter}` is a target and cannot be one of `{role}` as well; name it once")
    return tuple(given)


def check_own(given: Sequence[str] | Literal["all"]) -> OwnFields:
    """Return the fields that a tool's own system assigns; raise UsageError for a text other than `all`."""
    if isinstance(given, str) and given != "all":
        raise UsageError(f"`own` is a list of fields or `all`, and `{given[:80]}` is neither; write a list")
    return "all" if given == "all" else tuple(given)


async def call_function(function: Callable[..., Any], check: Check, arguments: Arguments) -> ToolResult:
    """Call the function with arguments checked by type; what it raises, but RuntimeLost, becomes a failure."""
    try:
        keywords = check(arguments)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return ToolResult(False, f"the argument `{where}` is wrong: {first['msg']}"[:_MAX_ERROR], error="arguments")
    try:
        if inspect.iscoroutinefunction(function):
            value = await function(**keywords)
        else:
            value, failure = await asyncio.to_thread(catch_outcome, function, keywords)
            if failure is not None:
                raise failure
            if isinstance(value, Awaitable):
                value = await value
    except RuntimeLost:
        raise
    except ForegateError as error:
        return ToolResult(False, str(error)[:_MAX_ERROR], error=type(error).__name__)
    except (Exception, SystemExit) as raised:
        text = f"{type(raised).__name__}: {_format_value(raised, str)}"
        return ToolResult(False, text[:_MAX_ERROR], error="tool_error")
    return build_result(value)


def catch_outcome(
    function: Callable[..., Any], keywords: Mapping[str, Any]
) -> tuple[Any, None] | tuple[None, Exception | SystemExit]:
    """Return what a function returns, and what it raises: no future can hold a StopIteration that a thread raised."""
    try:
        return function(**keywords), None
    except (Exception, SystemExit) as error:
        return None, error


def build_result(value: Any) -> ToolResult:
    """Return what a function returned as a result: a text or a ToolResult itself, anything else as JSON."""
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, str):
        return ToolResult(True, value)
    try:
        return ToolResult(True, to_json(value, inf_nan_mode="strings", bytes_mode="base64").decode())
    except Exception:
        # A serializer or a property of the value's own may raise anything.
        return ToolResult(True, _format_value(value)[:_MAX_ERROR])


def _format_value(value: Any, show: Callable[[Any], str] = repr) -> str:
    """Return a value as text, its type where it raises on the way."""
    try:
        return show(value)
    except Exception:
        return f"<{type(value).__name__}>"
