"""Files that programs run without being asked to: which they are, and which change of a manifest counts."""

from __future__ import annotations

import pytest

from foregate.policy.policy import Policy
from foregate.policy.risk.self_running import (
    BARE_REPOSITORY,
    FileContents,
    explain_running,
    find_entry,
    is_self_running,
)
from tests.policies import policy_with


def nothing(path: str) -> bool:
    return False


def is_run(path: str, policy: Policy, before: bytes | None = None, after: bytes | None = b"x") -> bool:
    """Return whether writing `after` at a path is a change of what runs by itself."""
    return is_self_running(path, policy, nothing, lambda: FileContents(before, after))


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/ci.yml",
        ".github/actions/setup/action.yml",
        ".gitlab-ci.yml",
        ".circleci/config.yml",
        "Jenkinsfile",
        "azure-pipelines.yml",
        ".vscode/tasks.json",
        ".vscode/launch.json",
        ".vscode/settings.json",
        "web/.vscode/settings.json",
        ".idea/runConfigurations/All.xml",
        ".devcontainer/devcontainer.json",
        ".envrc",
        "deep/er/.envrc",
        ".husky/pre-commit",
        ".githooks/post-merge",
        ".pre-commit-config.yaml",
        "lefthook.yml",
        ".gitattributes",
        "sitecustomize.py",
        "lib/usercustomize.py",
        ".venv/lib/python3.11/site-packages/x.pth",
        ".bashrc",
        ".bash_profile",
        ".profile",
        ".zshrc",
        ".config/fish/config.fish",
        ".mcp.json",
        ".claude/settings.json",
        ".cursor/mcp.json",
        "setup.py",
        "build.rs",
        ".yarnrc.yml",
        ".cargo/config.toml",
        "rust-toolchain",
        "crates/rust-toolchain.toml",
        "binding.gyp",
        ".pnpmfile.mjs",
        "gradle/wrapper/gradle-wrapper.properties",
        ".mvn/jvm.config",
        ".hg/hgrc",
        ".jj/repo/config.toml",
        "deploy/app.service",
        "etc/cron.d/job",
        ".config/autostart/app.desktop",
        ".tekton/pipeline.yaml",
        ".helix/languages.toml",
        ".idea/startup.xml",
        ".dir-locals-2.el",
        "mise.local.toml",
        ".tool-versions",
        "lefthook.toml",
        ".ssh/config",
        ".ghci",
        ".pnp.cjs",
        ".mvn/maven.config",
    ],
)
def test_what_a_program_runs_unasked_is_known_by_its_path(policy: Policy, path: str) -> None:
    assert is_run(path, policy)


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "Makefile",
        "build.sh",
        "src/app.py",
        "CLAUDE.md",
        ".gitignore",
        "tasks.json",
        "github/workflows/ci.yml",
        "docs/settings.json",
        ".vscode/extensions.json",
        "tsconfig.json",
        "src/systemd/unit.py",
    ],
)
def test_what_runs_only_when_it_is_started_is_not_among_them(policy: Policy, path: str) -> None:
    assert not is_run(path, policy)


@pytest.mark.parametrize("path", [".github", "web/.VSCode", "gradle", ".idea", ".config"])
def test_a_link_may_stand_for_a_folder_in_which_such_files_are_looked_for(policy: Policy, path: str) -> None:
    def is_link_run(at: str) -> bool:
        return is_self_running(at, policy, nothing, lambda: FileContents(None, b"x"), is_link=True)

    assert is_link_run(path)
    assert not is_run(path, policy)
    assert explain_running(path, policy) != BARE_REPOSITORY
    assert not is_link_run(f"{path}.txt")
    assert not is_link_run(f"{path}/docs/latest")


@pytest.mark.parametrize(
    "path", [".EnvRC", ".envrc.", ".envrc ", "a. /.ENVRC. .", ".\u200benvrc", ".VSCODE./Tasks.json "]
)
def test_spellings_that_a_file_system_may_take_for_the_same_count_as_well(policy: Policy, path: str) -> None:
    assert is_run(path, policy)


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        (b'{"version": "1"}', b'{"version": "2", "scripts": {"test": "x"}}', False),
        (b'{"scripts": {"postinstall": "a"}}', b'{"scripts": {"postinstall": "b"}}', True),
        (b'{"scripts": {"postinstall": "a"}}', b'{ "scripts":{"postinstall":"a"},"x":1}', False),
        (None, b'{"scripts": {"prepare": "x"}}', True),
        (None, b'{"name": "x"}', False),
        (None, b'\xef\xbb\xbf{"scripts": {"install": "x"}}', True),
        (b'{"scripts": {"install": "x"}}', b"{}", False),
        (b"{}", b"{not json", True),
        (b"{}", b'{"scripts": {"install": "x"}, "scripts": {}}', True),
        (b"{}", None, True),
    ],
)
def test_of_a_package_manifest_only_a_change_of_its_install_hooks_counts(
    policy: Policy, before: bytes | None, after: bytes | None, counts: bool
) -> None:
    assert is_run("web/package.json", policy, before, after) is counts


def test_of_a_toml_manifest_only_what_has_own_code_build_it_counts(policy: Policy) -> None:
    before = b'[project]\nversion = "1"\n[build-system]\nbuild-backend = "hatchling.build"\n'
    assert not is_run("pyproject.toml", policy, None, before)
    assert not is_run("pyproject.toml", policy, before, before.replace(b'"1"', b'"2"'))
    assert is_run("pyproject.toml", policy, before, before + b'backend-path = ["tools"]\n')


def test_contents_nobody_can_tell_count_as_a_change(policy: Policy) -> None:
    assert is_self_running("package.json", policy, nothing, lambda: None)


@pytest.mark.parametrize(
    ("path", "there", "counts"),
    [
        ("x/hooks/pre-commit", {"x/HEAD"}, True),
        ("x/config", {"x/HEAD", "x/objects"}, True),
        ("x/HEAD", {"x/objects", "x/refs"}, True),
        ("HEAD", {"objects"}, True),
        ("x/objects/ab/cd", {"x/HEAD"}, True),
        ("x/HEAD", set(), False),
        ("src/hooks/use.ts", {"src/config"}, False),
        ("config/app.yml", set(), False),
    ],
)
def test_a_folder_that_becomes_a_bare_repository_runs_by_itself(
    policy: Policy, path: str, there: set[str], counts: bool
) -> None:
    assert is_self_running(path, policy, there.__contains__, lambda: FileContents(None, b"x")) is counts


def test_an_empty_list_knows_no_such_file_and_no_bare_repository() -> None:
    none = policy_with({"files.runs_by_itself": []})
    assert not is_run(".envrc", none)
    assert not is_self_running("x/config", none, {"x/HEAD"}.__contains__, lambda: None)


def test_each_entry_says_what_runs_the_file_and_when(policy: Policy) -> None:
    found = find_entry("a/.envrc", policy)
    assert found is not None
    assert "direnv" in found.when
