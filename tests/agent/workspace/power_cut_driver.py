"""Works on a file system in a file and copies that file, still mounted, each time the log says that something is done.

Started in a mount namespace of its own with three arguments: the namespace it must not be in, an empty folder, and a
folder outside for its log. Its output is a JSON object: `skip` with a reason, or `copies`, each with the event the copy
was made at, and what the workspace held `then` and holds `after` the copy is mounted, as after a power cut; `applied`
are further copies, made while what a sandbox changed is applied and taken back, and when it is.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from foregate.agent.loop.applying import apply_changes, build_undo_step, keep_images
from foregate.agent.loop.runner import run
from foregate.agent.loop.snapshots import Snapshots
from foregate.agent.loop.undo import undo
from foregate.agent.models.scripted import ScriptedModel, ScriptedPerson, calls, says
from foregate.agent.workspace import path_state
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.path_state import look_at_path
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.policy.policy import Policy
from foregate.policy.source.load import default_policy
from foregate.schemas.event import Event
from foregate.schemas.sandbox import PathChange
from foregate.schemas.tool_spec import Effect
from foregate.telemetry.log.temporary_file import FileBlobs

OPTIONS = "loop,noauto_da_alloc,commit=300"
"""Nothing reaches the disk by itself soon, and the file system guesses nothing."""
SCRIPT = "mkdir made && echo made > made/f && mv keep.txt made/kept && echo more >> log.txt"
STEPS = (
    ("write_file", {"path": "new/deep/b.txt", "content": "created"}),
    ("write_file", {"path": "a.txt", "content": "replaced"}),
    ("edit_file", {"path": "c.txt", "old": "old", "new": "edited"}),
    ("move_path", {"source": "a.txt", "destination": "far/off.txt"}),
    ("move_path", {"source": "tree", "destination": "far/tree"}),
    ("delete_path", {"path": "new/deep/b.txt"}),
    ("delete_path", {"path": "far/tree", "recursive": True}),
    ("run_command", {"argv": ["sh", "-c", SCRIPT]}),
)


def check_namespace(outside: str) -> None:
    """End where this is not a namespace of its own, or something that is mounted here would be mounted elsewhere."""
    if os.readlink("/proc/self/ns/mnt") == outside:
        sys.exit("this is no mount namespace of its own")
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        if any(word.startswith(("shared:", "master:")) for word in line.partition(" - ")[0].split()):
            sys.exit(f"a mount would show elsewhere: {line}")


def mount(image: Path, place: Path) -> str:
    """Mount an image; return why it could not be."""
    place.mkdir()
    words = ["mount", "-o", OPTIONS, str(image), str(place)]
    return subprocess.run(words, capture_output=True, text=True, check=False).stderr.strip()


def describe(folder: Path) -> dict[str, str]:
    """Return names, kinds and contents of everything in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        found[str(path.relative_to(folder))] = path.read_text() if path.is_file() else "folder"
    return found


def build_policy() -> Policy:
    """Return a policy whose gates let everything pass but what a person is asked about."""
    data = default_policy().model_dump(mode="json")
    for gate in ("rules", "narration", "drift", "uncertainty", "evidence", "plan", "critique"):
        data[gate]["mode"] = "off"
    return Policy.model_validate_json(json.dumps(data))


async def work(top: Path, home: Path, workspace: Path) -> list[tuple[str, dict[str, str]]]:
    """Make and take back changes; return what was there when each was recorded, in the order of the copies."""
    then: list[tuple[str, dict[str, str]]] = []

    def copy(event: Event) -> None:
        if event.kind in ("tool_finished", "effect_undone"):
            shutil.copyfile(top / "image", top / f"copy{len(then)}")
            then.append((f"{event.kind} {getattr(event.body, 'tool', '')}", describe(workspace)))

    options = SessionOptions(
        model=ScriptedModel([*(calls(step) for step in STEPS), says("done")]),
        person=ScriptedPerson(["yes"] * len(STEPS)),
        workspace=workspace,
        policy=build_policy(),
        environ={**os.environ, "FOREGATE_HOME": str(home)},
        listeners=(copy,),
    )
    opened = await open_session(options)
    await run(opened.session, "go")
    for _ in STEPS[:-1]:
        await undo(opened.session)
    await opened.close()
    return then


SANDBOX = ("log.txt", "far/tree/sub/f", "fresh/a", "fresh/b")
"""What a sandbox makes files of, with what follows from the names; it deletes `c.txt` and the folder `made`."""


def apply(top: Path, home: Path, workspace: Path) -> list[tuple[str, dict[str, str]]]:
    """Apply what a sandbox changed, and take it back; return what was there when it was done, and in the middle."""
    then: list[tuple[str, dict[str, str]]] = []

    def copy(event: str) -> None:
        shutil.copyfile(top / "image", top / f"applied{len(then)}")
        then.append((event, describe(workspace)))

    upper = home / "upper"
    for name in SANDBOX:
        (upper / name).parent.mkdir(parents=True, exist_ok=True)
        (upper / name).write_text(f"new {name} " * 1000)
    old, new = LocalWorkspace(workspace), LocalWorkspace(upper)
    paths = sorted({*SANDBOX, *(str(path.relative_to(upper)) for path in upper.rglob("*")), "c.txt", "made"})
    paths += [str(path.relative_to(workspace)) for path in (workspace / "made").rglob("*")]
    states = [(path, look_at_path(old, path).state, look_at_path(new, path).state) for path in paths]
    changes = [PathChange(path, Effect.EDIT, *both) for path, *both in states if both[0] != both[1]]
    place = Snapshots(old, build_policy(), FileBlobs(home / "blobs"))
    kept, rename, turns = keep_images(place, changes, upper), path_state.rename_with, [0]

    def rename_and_copy(*words: object) -> bool:
        done = rename(*words)  # type: ignore[arg-type]
        turns[0] += 1
        if turns[0] in (1, 3, 5):
            with (top / "disk/other").open("w") as stream:  # what another program syncs takes our renames with it
                os.fsync(stream.fileno())
            copy("midway")
        return done

    path_state.rename_with = rename_and_copy
    changed = apply_changes(place, kept, upper).changes
    copy("applied")
    turns[0] = 0
    build_undo_step(place, kept, changed).take_back()
    copy("taken back")
    old.close()
    new.close()
    return then


def main(outside: str, top: Path, home: Path) -> dict[str, object]:
    """Do everything; return what the output says."""
    check_namespace(outside)
    with (top / "image").open("wb") as stream:
        stream.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(top / "image")], check=True)
    if why := mount(top / "image", top / "disk"):
        return {"skip": f"no file system in a file can be mounted here: {why}"}
    workspace = top / "disk/workspace"
    (workspace / "tree/sub").mkdir(parents=True)
    for name in ("a.txt", "c.txt", "keep.txt", "log.txt", "tree/sub/f"):
        (workspace / name).write_text("old")
    os.sync()
    found: dict[str, object] = {}
    for kind, copied in (("copy", asyncio.run(work(top, home, workspace))), ("applied", apply(top, home, workspace))):
        copies = []
        for number, (event, then) in enumerate(copied):
            place = top / f"{kind} {number}"
            if why := mount(top / f"{kind}{number}", place):
                return {"skip": f"no copy can be mounted here: {why}"}
            copies.append({"event": event, "then": then, "after": describe(place / "workspace")})
            subprocess.run(["umount", str(place)], check=True)
        found[kind] = copies
    subprocess.run(["umount", str(top / "disk")], check=True)
    return {"copies": found["copy"], "applied": found["applied"]}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))))
