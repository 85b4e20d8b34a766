"""The user's own files: where a configuration is looked for, and loading a module that stands in for no other."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType

from msgspec import Struct

from foregate.schemas.errors import UsageError
from foregate.schemas.strict_json import sha256


class UserConfigFile(Struct, frozen=True):
    """A file by its name in the user's configuration, and the environment variable that names another."""

    name: str
    variable: str

    def get_place(self, named: Path | str | None = None, environ: Mapping[str, str] = os.environ) -> Path:
        """Return where the file is looked for, whether or not there is one."""
        if chosen := named or environ.get(self.variable):
            return Path(chosen).expanduser()
        configured = environ.get("XDG_CONFIG_HOME", "")
        base = Path(configured) if configured.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".config"
        return base / "foregate" / self.name

    def find(self, named: Path | str | None = None, environ: Mapping[str, str] = os.environ) -> Path | None:
        """Return the file: one that was chosen in any case, the user's own only where there is one."""
        file = self.get_place(named, environ)
        return file if named or environ.get(self.variable) or os.path.lexists(file) else None


def load_module(place: str, more: str = "") -> ModuleType:
    """Return the module at `place`: an importable name, or a path that ends in `.py`.

    A name is never looked for in the current folder, and a file is loaded under a name of its own. `more` is what
    follows the place where a person writes it, for errors. Raises UsageError for what cannot be loaded.
    """
    return _load_file(Path(place).expanduser()) if place.endswith(".py") else _import_module(place, more)


def load_function(named: str, takes: str) -> Callable[..., object]:
    """Return the function `MODULE:FUNCTION` names; MODULE is importable, or a path that ends in `.py`.

    Called, it imports nothing from the current folder either. `takes` says what it is given, for errors. Raises
    UsageError for what cannot be loaded.
    """
    place, colon, name = named.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise UsageError(f"`{named}` names no function; write MODULE:FUNCTION, or FILE.py:FUNCTION")
    found: object = getattr(load_module(place, ":FUNCTION"), name, None)
    if not callable(found):
        raise UsageError(f"`{place}` has no function `{name}`; name one that takes {takes}")
    return without_current_folder()(found)


def _load_file(path: Path) -> ModuleType:
    """Return what a file defines, loaded under a name that no import asks for."""
    if not path.is_file():
        raise UsageError(f"there is no file `{path}` to load; check the path")
    name = f"foregate_user_{sha256(str(path.resolve()).encode('utf-8', 'surrogateescape'))[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and typing look there for the module of what they make.
    sys.modules[name] = module
    try:
        with without_current_folder():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        what, remedy = _describe_error(error), _suggest_remedy(error, path)
        raise UsageError(f"`{path}` cannot be loaded ({what}); {remedy}") from None
    return module


def _import_module(name: str, more: str) -> ModuleType:
    try:
        with without_current_folder():
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        here = Path(*name.split(".")).with_suffix(".py")
        hint = f"to load the file here, write `{here}{more}`" if here.is_file() else "install it, or name a file"
        raise UsageError(f"the module `{name}` cannot be imported ({_describe_error(error)}); {hint}") from None


@contextmanager
def without_current_folder() -> Iterator[None]:
    """Run a block in which nothing is imported from the current folder, however Python was started.

    What the user's code prints goes to standard error: standard output may be lines that a program reads.
    """
    before, here = list(sys.path), os.path.realpath(Path.cwd())
    # Nothing is left beside the user's file.
    writing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path[:] = [entry for entry in before if entry and os.path.realpath(entry) != here]
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.path[:] = before
        sys.dont_write_bytecode = writing


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"


def _suggest_remedy(error: BaseException, path: Path) -> str:
    """Return what to do about a file that cannot be loaded."""
    missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    beside = missing and ((path.parent / missing).is_dir() or (path.parent / f"{missing}.py").is_file())
    return f"what lies beside it is not imported: put `{missing}` into it, or install it" if beside else "correct it"
