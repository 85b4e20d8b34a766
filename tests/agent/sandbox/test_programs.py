"""Programs whose interpreters live elsewhere start in a sandbox, and whoever names one opens nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from foregate.agent.sandbox.plan import ProcessLimits, SandboxPlan
from foregate.agent.sandbox.programs import follow_links, list_venvs, read_interpreters
from foregate.agent.sandbox.visible import is_inside, plan_read, plan_work, show_needs
from tests.agent.sandbox.place import LIMITS, Place

PYTHON = '#!/bin/sh\nexec cat "$(dirname "$(readlink -f "$0")")/../lib/python3.11/os.py"\n'
"""An interpreter that, whatever it is given, prints the library beside it."""
LIBRARY = "the library\n"
BINS = (".cargo/bin", ".local/bin", ".pyenv/shims", ".nvm/versions/node/v20/bin")
HOME_PROGRAMS = ("black", "plain", "long", "shim", "npm", "hop", "cargo")
OWN_PROGRAMS = (
    *(".venv/bin/pytest", ".venv/bin/python", "api/venv/bin/pytest", "copied/.venv/bin/python"),
    *("./script.py", "deep/down/env/bin/tool"),
)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def link(path: Path, target: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(str(target))


def make_python(prefix: Path) -> Path:
    """Make an installation and return its interpreter."""
    write(prefix / "bin/python3.11", PYTHON)
    write(prefix / "lib/python3.11/os.py", LIBRARY)
    link(prefix / "bin/python3", "python3.11")
    return prefix / "bin/python3"


def make_venv(folder: Path, python: Path, *programs: str) -> None:
    """Make a virtual environment from an interpreter, with programs in it."""
    link(folder / "bin/python", python)
    write(folder / "pyvenv.cfg", f"home = {python.parent}\n")
    for program in programs:
        write(folder / "bin" / program, f"#!{folder}/bin/python\n")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home and beside it a workspace, with every usual way to install programs."""
    return make_layout(tmp_path)


def make_layout(base: Path) -> Path:
    home, workspace = base / "home", base / "workspace"
    share = home / ".local/share"
    make_python(share / "uv/python/cpython-3.11.9-linux")
    link(share / "uv/python/cpython-3.11-linux", "cpython-3.11.9-linux")
    minor = share / "uv/python/cpython-3.11-linux/bin/python3.11"
    make_venv(share / "pipx/venvs/black", minor, "black")
    link(home / ".local/bin/black", share / "pipx/venvs/black/bin/black")
    write(home / ".local/bin/plain", f"#!{minor}\n")
    quoted = f'"{share}/pipx/venvs/black/bin/python" "$0" "$@"'
    write(home / ".local/bin/long", f"#!/bin/sh\n'''exec' {quoted}\n' '''\n")
    link(home / ".local/bin/hop", home / "apps/now/bin/hop")
    link(home / "apps/now", "v2")
    write(home / "apps/v2/bin/hop", "#!/bin/sh\necho the library\n")
    pyenv = make_python(home / ".pyenv/versions/3.11.9")
    write(home / ".pyenv/shims/shim", f'#!/usr/bin/env sh\nexec {pyenv} "$@"\n')
    node = home / ".nvm/versions/node/v20"
    write(node / "bin/node", "#!/bin/sh\necho the library\n")
    write(node / "lib/node_modules/npm/bin/npm-cli.js", "#!/usr/bin/env node\n")
    link(node / "bin/npm", "../lib/node_modules/npm/bin/npm-cli.js")
    write(home / ".cargo/bin/rustup", '#!/bin/sh\nexec "${RUSTUP_HOME:-$HOME/.rustup}/stable/cargo"\n')
    link(home / ".cargo/bin/cargo", "rustup")
    write(home / ".rustup/stable/cargo", "#!/bin/sh\necho the library\n")
    conda = make_python(home / "miniconda/envs/a")
    make_venv(workspace / ".venv", conda, "pytest")
    make_venv(workspace / "api/venv", make_python(home / ".rye/py/cpython"), "pytest")
    make_venv(workspace / "deep/down/env", make_python(home / ".asdf/installs/python/3.11"), "tool")
    base, copied = make_python(home / "built/python"), workspace / "copied/.venv"
    write(copied / "pyvenv.cfg", f"home = {base.parent}\n")
    write(copied / "bin/python", f"#!/bin/sh\ncat {base.parents[1]}/lib/python3.11/os.py\n")
    make_venv(home / ".virtualenvs/project", minor)
    write(workspace / "script.py", f"#!{home}/.virtualenvs/project/bin/python\n")
    for secret in (".ssh/id", ".aws/credentials", ".config/token", "projects/other/notes"):
        write(home / secret, "secret\n")
    return home


def plan_all(home: Path, **work: str) -> SandboxPlan:
    """Return the plan of a sandbox in a layout, to read or to work in."""
    workspace = home.parent / "workspace"
    path = os.pathsep.join([*(str(home / folder) for folder in BINS), "/usr/bin", "/bin"])
    about = {"scratch_bytes": 1 << 20, "limits": LIMITS}
    make = plan_work if work else plan_read
    plan = make(str(workspace), path, str(home), **about, **work)  # type: ignore[operator]
    return show_needs(plan, str(home), programs=[f"{workspace}/{name}" for name in OWN_PROGRAMS])


def run_all(shared: Place, name: str, **work: str) -> dict[str, str]:
    """Return what every program prints in a sandbox."""
    place = Place(shared.base / name, shared.store, shared.user, shared.tier)
    home = make_layout(place.base)
    if place.user is not None:
        for path in [place.base, *place.base.rglob("*")]:
            os.lchown(path, place.user, place.user)
    bins = ":".join(f"{home}/{folder}" for folder in BINS)
    each = "; ".join(f"echo @{name}; {name} 2>&1" for name in (*HOME_PROGRAMS, *OWN_PROGRAMS))
    told = place.run_inside("sh", "-c", f"PATH={bins}:$PATH; {each}", **{**plan_all(home, **work), "tier": place.tier})
    return dict(part.split("\n", 1) for part in told.stdout.split("@")[1:])


STARTED = dict.fromkeys((*HOME_PROGRAMS, *OWN_PROGRAMS), LIBRARY)


def test_a_program_whose_interpreter_is_elsewhere_starts_where_it_may_read(place: Place) -> None:
    assert run_all(place, "reading") == STARTED


def test_a_program_whose_interpreter_is_elsewhere_starts_where_it_works(place: Place) -> None:
    assert run_all(place, "working", upper=str(place.store / "programs")) == STARTED


def test_a_program_whose_interpreter_is_elsewhere_starts_without_namespaces(limited: Place) -> None:
    assert run_all(limited, "limited") == STARTED


def seen(home: Path, plan: SandboxPlan) -> set[str]:
    return {os.path.relpath(path, home) for path in plan["folders"] if is_inside(path, [str(home)])}


def show_workspace(home: Path, *programs: str) -> set[str]:
    """Return what is seen of the home for the sake of a workspace, and of programs that are named."""
    workspace = home.parent / "workspace"
    plan = plan_read(str(workspace), "/usr/bin:/bin", str(home), scratch_bytes=1, limits=ProcessLimits())
    assert seen(home, plan) == set()
    return seen(home, show_needs(plan, str(home), programs=programs))


def test_of_an_interpreter_that_a_workspace_names_only_what_starts_it_is_seen(home: Path) -> None:
    """The folder of another project may be a virtual environment itself."""
    make_venv(home / "projects/other", make_python(home / "python"))
    before = show_workspace(home)
    write(home.parent / "workspace/.venv/bin/new", f"#!{home}/projects/other/bin/python\n")
    parts = {"projects/other/bin", "projects/other/pyvenv.cfg", "python/bin", "python/lib"}
    assert show_workspace(home) - before == parts


HOSTILE = ("", ".", ".ssh", ".aws", ".config", ".config/tool", ".local", ".local/share", "projects", "..", "../home")


@pytest.mark.parametrize("folder", HOSTILE)
@pytest.mark.parametrize("way", ["#!", "link", "pyvenv.cfg", "named"])
def test_no_workspace_has_a_home_or_what_is_kept_there_shown(home: Path, folder: str, way: str) -> None:
    """Not even where that looks like an installation."""
    venv, before = home.parent / "workspace/.venv", show_workspace(home)
    if folder != "projects":
        write(home / folder / "lib/python3.11/os.py", LIBRARY)
    write(home / folder / "bin/python3", PYTHON)
    target = f"{home / folder}/bin/python3"
    if way == "#!":
        write(venv / "bin/new", f"#!{target}\n")
    elif way == "link":
        link(venv / "bin/new", target)
    elif way == "pyvenv.cfg":
        write(venv / "pyvenv.cfg", f"home = {home / folder}/bin\n")
    assert show_workspace(home, *([target] if way == "named" else [])) <= before


def test_a_link_of_the_workspace_to_a_secret_shows_nothing(home: Path) -> None:
    before = show_workspace(home)
    link(home.parent / "workspace/.venv/bin/key", home / ".ssh/id")
    link(home.parent / "workspace/venv", home / ".ssh")
    assert show_workspace(home) == before


def test_an_installation_whose_parts_lead_elsewhere_does_not_bring_that_along(home: Path) -> None:
    python = make_python(home / "odd")
    link(home / "odd/include", home / "projects")
    assert not is_inside("projects", show_workspace(home, str(python)))


def test_a_folder_of_path_in_the_workspace_counts_as_written_by_anybody(home: Path) -> None:
    workspace = home.parent / "workspace"
    link(workspace / "bin/tool", home / "projects/other/run")
    write(home / "projects/other/run", "#!/bin/sh\n")
    plan = plan_read(str(workspace), f"{workspace}/bin:/usr/bin", str(home), scratch_bytes=1, limits=ProcessLimits())
    plan = show_needs(plan, str(home), folders=[str(workspace / "bin")])
    assert not is_inside(str(home / "projects/other"), plan["folders"])


def test_no_link_is_made_in_the_workspace(home: Path) -> None:
    """Of a link that is hidden there, such as a secret, a sandbox knows nothing."""
    assert not [path for path in plan_all(home)["links"] if is_inside(path, [str(home.parent / "workspace")])]


def test_a_pipe_or_a_circle_among_programs_is_not_waited_for(home: Path) -> None:
    programs = home.parent / "workspace/.venv/bin"
    os.mkfifo(programs / "pipe")
    link(programs / "round", "round")
    write(programs / "self", f"#!{programs}/self\n")
    show_workspace(home)
    assert follow_links(str(programs / "round"), {}) == "/"


def test_scripts_that_name_each_other_as_interpreters_are_followed_only_so_far(home: Path) -> None:
    """Each by the next, more than a process could follow one inside the other."""
    programs = home.parent / "workspace/.venv/bin"
    for number in range(1500):
        write(programs / f"a{number}", f"#!{programs}/a{number + 1}\n")
    write(programs / "a1500", f"#!{home}/odd/bin/python3\n")
    make_python(home / "odd")
    assert "odd/bin" in show_workspace(home)


def test_a_program_that_lies_beside_those_of_an_installation_does_not_show_it(home: Path) -> None:
    make_python(home / "odd")
    write(home / "odd/notes/run", "#!/bin/sh\n")
    assert not is_inside("odd/bin", show_workspace(home, str(home / "odd/notes/run")))


def test_virtual_environments_are_found_in_a_project_and_in_its_folders(home: Path) -> None:
    workspace = home.parent / "workspace"
    assert {os.path.relpath(one, workspace) for one in list_venvs(str(workspace))} == {
        ".venv/bin",
        "api/venv/bin",
        "copied/.venv/bin",
    }
    assert list(list_venvs(str(workspace / ".venv"))) == [str(workspace / ".venv/bin")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#!/a/python -s\n", ["/a/python"]),
        ("#! /a/python\n", ["/a/python"]),
        ("#!/usr/bin/env python\n", ["/usr/bin/env"]),
        ("#!/bin/sh\n'''exec' '/a b/python' \"$0\" \"$@\"\n", ["/bin/sh", "/a b/python"]),
        ("#!python\n", []),
        ("/a/python\n", []),
        ("\x7fELF", []),
    ],
)
def test_a_script_names_its_interpreter_in_its_first_lines(tmp_path: Path, text: str, found: list[str]) -> None:
    write(tmp_path / "script", text)
    assert read_interpreters(str(tmp_path / "script")) == found


def test_a_package_manager_that_has_fetched_nothing_yet_has_a_place_for_what_it_fetches(place: Place) -> None:
    own = Place(place.base / "fetching", place.store, place.user)
    write(
        own.home / ".cargo/bin/rustup", "#!/bin/sh\necho started > ~/.cargo/registry/said; cat ~/.cargo/registry/said\n"
    )
    link(own.home / ".cargo/bin/cargo", "rustup")
    link(own.home / ".cargo/env", "bin")
    own.workspace.mkdir()
    if own.user is not None:
        for path in [own.base, *own.base.rglob("*")]:
            os.lchown(path, own.user, own.user)
    stores = {"upper": str(own.store / "fetching"), "packages": str(own.store / "packages")}
    about = {"scratch_bytes": 1 << 20, "limits": LIMITS}
    plan = plan_work(str(own.workspace), f"{own.home}/.cargo/bin:/usr/bin", str(own.home), **stores, **about)  # type: ignore[arg-type]
    told = own.run_inside("sh", "-c", "~/.cargo/env/cargo; touch ~/.cargo/bin/new", **plan)
    assert told.stdout == "started\n"
    assert "Read-only" in told.stderr
