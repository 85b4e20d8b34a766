"""A folder as a work sandbox shows it: what is written to it goes elsewhere, and the folder stays unchanged."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from foregate.agent.sandbox.namespaces import (
    NEW_MOUNTS,
    NO_DEVICES,
    NO_SETUID,
    clone_tree,
    copy_metadata,
    lay_masks,
    make_all_private,
    make_mount,
)
from foregate.agent.sandbox.plan import SandboxPlan
from foregate.agent.sandbox.removal import remove_tree
from foregate.agent.sandbox.system_calls import StepFailed, call, name_step

MARKS = "marks"
"""The file beside an upper folder that names the attributes by which the kernel marks what it holds."""
_ASIDE = "work-"
TRUSTED, USER = "trusted.overlay.", "user.overlay."
_OPTIONS: dict[str, dict[str, str | None]] = {
    # With `redirect_dir` a folder that is there can be renamed; the kernel grants it only with marks nobody can forge.
    TRUSTED: {"redirect_dir": "on", "index": "off", "metacopy": "off"},
    USER: {"userxattr": None},
}
_SHOWN = NO_SETUID | NO_DEVICES


def make_early_view(plan: SandboxPlan) -> int | None:
    """Return the view of the workspace as a detached mount where this is the machine's root, else None.

    It is made before the namespaces of the sandbox, because only out here the kernel renames folders in a view. This
    process gets mounts of its own. Raises StepFailed.
    """
    if not plan["upper"]:
        return None
    with name_step("upper", f"what a sandbox writes cannot be held in {plan['upper']}"):
        _make_store(Path(plan["upper"]), Path(plan["workspace"]))
    if not _can_mark(plan["upper"], TRUSTED):
        return None
    with name_step("private", "the mounts could not be made private"):
        call("unshare", NEW_MOUNTS)
        make_all_private()
    return make_view(plan, TRUSTED)


def make_view(plan: SandboxPlan, marks: str = USER) -> int:
    """Return the workspace as a detached mount that one may write to. Raises StepFailed."""
    workspace, upper = Path(plan["workspace"]), Path(plan["upper"])
    with name_step("upper", f"what a sandbox writes cannot be held in {upper}"):
        names = [Path(mask).relative_to(workspace) for mask in plan["masks"] if Path(mask).is_relative_to(workspace)]
        _prepare(upper, workspace, marks, [name for name in names if name.parts])
    layer = find_layer(plan["caches"], marks)
    caches = [layer] if plan["caches"] and layer.is_dir() else []
    return _lay(upper, [*caches, workspace], marks)


def find_layer(caches: str, marks: str) -> Path:
    """Return the layer of a plan's `caches`; there is one for each kind of marks, which the other kind cannot read."""
    return Path(caches, marks.partition(".")[0])


def make_layer(folder: str, store: str) -> int:
    """Return a folder as a detached mount that one may write to, also where it is not there. Raises StepFailed."""
    with name_step("layers", f"what a sandbox writes to {folder} cannot be held in {store}"):
        if not os.path.isdir(folder):  # noqa: PTH112 - for each call, and there are many
            if not os.path.isdir(f"{store}/upper"):  # noqa: PTH112
                _make_store(Path(store), Path(folder))
                Path(store, "upper").mkdir(0o700)
            return clone_tree(f"{store}/upper", _SHOWN)
        _prepare(Path(store), Path(folder), USER)
    return _lay(Path(store), [Path(folder)], USER)


def _can_mark(store: str, marks: str) -> bool:
    """Whether this process may set such attributes here, which for `TRUSTED` only the machine's root may."""
    name = f"{marks.partition('.')[0]}.foregate"
    with suppress(OSError):
        os.setxattr(store, name, b"")
        os.removexattr(store, name)
        return True
    return False


def _make_store(store: Path, shown: Path) -> None:
    """Make the folder that takes what is written, closed to other users."""
    if store.is_relative_to(shown):
        raise StepFailed("upper", 0, f"what a sandbox writes to {shown} cannot be held in {store}, which is inside it")
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    store.chmod(0o700)


def _prepare(store: Path, shown: Path, marks: str, masks: Iterable[Path] = ()) -> None:
    """Make what a store holds; what an earlier sandbox left stays."""
    upper, known = store / "upper", _read_marks(store)
    is_new = not upper.is_dir()
    if is_new or known != marks:
        _make_store(store, shown)
        # The kernel cannot read the other kind of marks, so a store that holds something keeps its kind.
        if (known and not is_new) or not _can_mark(str(store), marks):
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        (store / MARKS).write_text(marks)
        upper.mkdir(0o700, exist_ok=True)
    lay_masks(shown, upper, masks)
    if is_new:
        copy_metadata(shown, upper)


def _read_marks(store: Path) -> str:
    """Return how the kernel marks what a store holds, "" where nobody wrote that down yet."""
    with suppress(FileNotFoundError):
        return (store / MARKS).read_text()
    return ""


def _lay(store: Path, lowers: Sequence[Path], marks: str) -> int:
    """Lay what is written over the lower folders, the topmost first; StepFailed names which of them cannot be used."""
    try:
        return _mount(store, lowers, marks)
    except OSError as error:
        number = error.errno or 0
    try:
        # The same over an empty folder tells the two faults apart: if that fails too, it is the store's.
        (store / "none").mkdir(exist_ok=True)
        os.close(_mount(store, [store / "none"], marks))
    except OSError:
        step, sentence = "upper", f"what a sandbox writes cannot be held in {store}"
    else:
        step, sentence = "overlay", f"{lowers[-1]} cannot be laid under a view of its own"
    raise StepFailed(step, number, f"{sentence}: {os.strerror(number)}")


def _mount(store: Path, lowers: Sequence[Path], marks: str) -> int:
    _make_work(f"{store}/work")
    with ExitStack() as opened:

        def name(folder: Path) -> str:
            """Return a name without letters that mean something to the kernel."""
            descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, descriptor)
            return f"/proc/self/fd/{descriptor}"

        return make_mount(
            "overlay",
            _SHOWN,
            lowerdir=":".join(map(name, lowers)),
            upperdir=name(store / "upper"),
            workdir=name(store / "work"),
            volatile=None,
            **_OPTIONS[marks],
        )


def _make_work(work: str) -> None:
    """Make the folder the kernel works in; it takes none of an earlier view, which may not all have been written."""
    try:
        os.mkdir(work, 0o700)  # noqa: PTH102 - for each call
    except FileExistsError:
        # Nobody could set it aside.
        remove_tree(work)
        os.mkdir(work, 0o700)  # noqa: PTH102


def set_aside_work(plan: SandboxPlan) -> list[str]:
    """Take the folders the kernel worked in away from the stores of layers, and return what `remove_tree` may remove.

    Removing takes longer than anybody wants to wait for. What one that was killed has left is among them.
    """
    found: list[str] = []
    for store in plan["layers"].values():
        with suppress(OSError):
            os.rename(f"{store}/work", f"{store}/{_ASIDE}{os.getpid()}")  # noqa: PTH104
            found += [f"{store}/{name}" for name in os.listdir(store) if name.startswith(_ASIDE)]  # noqa: PTH208
    return found
