"""What a user brings: the tools of a module, and a source of tools somebody wrote.

What a source leaves out has a default, and no fault of it makes a call look safer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from foregate.agent.tools.tool import BaseToolSource, Tool
from foregate.agent.workspace.user_files import load_module
from foregate.schemas.errors import ForegateError, RuntimeLost, UsageError, WorkspaceError
from foregate.schemas.protocols import FileChange, Inverse, Reconciled, RunContext, ToolSource
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Survey, ToolCall, ToolResult
from foregate.schemas.tool_spec import Effect, ToolSpec


class CustomToolSource(BaseToolSource):
    """Asks a source for what it defines, and answers the rest by the defaults of BaseToolSource.

    The source gets a copy of each call, so that what it does to the arguments reaches no call that was judged.
    Raises UsageError for an object that is no source, or lists what is no ToolSpec.
    """

    def __init__(self, source: Any) -> None:
        self._name = type(source).__name__
        if not (callable(getattr(source, "specs", None)) and callable(getattr(source, "run", None))):
            raise UsageError(f"`{self._name}` is no source of tools; give it `specs` and `run`, or pass tools")
        self._source = source
        self._takes_context = _takes_context(source.run)
        self._offered: Sequence[ToolSpec] = ()
        self._sessions: dict[str, ToolSource] = {}

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools of the source, the very same sequence while the source returns the same."""
        try:
            offered = self._source.specs()
        except Exception as error:
            raise UsageError(f"`specs` of `{self._name}` failed ({type(error).__name__}: {error}); mend it") from error
        if offered is not self._offered:
            if not isinstance(offered, Sequence) or not all(isinstance(spec, ToolSpec) for spec in offered):
                raise UsageError(f"`specs` of `{self._name}` returns something else than ToolSpec objects; mend it")
            self._offered = offered
        return self._offered

    def classify(self, call: ToolCall) -> Effect | None:
        """Return the source's view of the effect; one that fails, or names no effect, says the worst."""
        try:
            found = self._find("classify")(deepcopy(call))
            return None if found is None else Effect(found)
        except (Exception, SystemExit):
            return Effect.UNKNOWN

    def fill_arguments(self, call: ToolCall) -> Mapping[str, Json]:
        """Return what the tool would fill in; raise WorkspaceError where the source cannot tell."""
        try:
            filled = self._find("fill_arguments")(deepcopy(call))
        except WorkspaceError:
            raise
        except Exception:
            filled = None
        if not isinstance(filled, Mapping):
            raise WorkspaceError(f"what `{call.name}` would do with these arguments cannot be told")
        return filled

    async def refresh(self, calls: Sequence[ToolCall]) -> None:
        """Have the source survey calls; raise RuntimeLost where it fails, since nothing can be judged without."""
        try:
            await self._find("refresh")([deepcopy(call) for call in calls])
        except ForegateError:
            raise
        except Exception as error:
            raise RuntimeLost(f"`{self._name}` cannot survey the calls ({type(error).__name__}: {error})") from error

    def survey(self, call: ToolCall) -> Survey | None:
        """Return what the source found; None, by which the call is not run, where it fails or finds no Survey."""
        try:
            found = self._find("survey")(deepcopy(call))
        except Exception:
            return None
        return found if isinstance(found, Survey) else None

    def preview(self, call: ToolCall) -> Sequence[FileChange]:
        changes: Sequence[FileChange] = self._find("preview")(deepcopy(call))
        return changes

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        given = (deepcopy(call), context) if self._takes_context else (deepcopy(call),)
        result: ToolResult = await self._source.run(*given)
        return result

    async def reconcile(self, call: str, digest: str) -> Reconciled | None:
        """Return what the source knows of a call; None, by which its outcome stays unknown, where it fails."""
        try:
            found = await self._find("reconcile")(call, digest)
        except Exception:
            return None
        return found if isinstance(found, Reconciled) else None

    def inverse(self, tool: str) -> Inverse | None:
        """Return how the source undoes what a tool changed; raise WorkspaceError, by which nothing runs, on failure."""
        try:
            found: Inverse | None = self._find("inverse")(tool)
        except Exception as error:
            raise WorkspaceError(f"`inverse` of `{self._name}` failed ({type(error).__name__}); mend it") from error
        return found

    def for_session(self, session: str) -> ToolSource:
        """Return the source as it serves one session, each time the same; raise UsageError where it gives none."""
        if session not in self._sessions:
            try:
                found = self._find("for_session")(session)
            except Exception as error:
                raise UsageError(f"`for_session` of `{self._name}` failed ({type(error).__name__}); mend it") from error
            self._sessions[session] = self if found is self._source else CustomToolSource(found)
        return self._sessions[session]

    def _find(self, method: str) -> Callable[..., Any]:
        found = getattr(self._source, method, None)
        return found if callable(found) else getattr(super(), method)  # type: ignore[no-any-return]


def _takes_context(run: Callable[..., object]) -> bool:
    try:
        inspect.signature(run).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        # A method in C says nothing of its parameters.
        return True
    return True


def load_tools(place: str) -> list[Tool]:
    """Return the tools of the module at `place`, a name or a path that ends in `.py`; loading it runs it.

    Raises UsageError for a module that cannot be loaded and for one without tools.
    """
    module = load_module(place)
    found = {id(made): made for made in vars(module).values() if isinstance(made, Tool)}
    if not found:
        raise UsageError(f"`{place}` defines no tools; put `@foregate.tool` before functions in it")
    return list(found.values())


def find_file(place: str) -> Path | None:
    """Return the file a place names, None for the name of a module."""
    return Path(place).expanduser() if place.endswith(".py") else None
