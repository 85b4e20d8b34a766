"""The probe says what a machine can do, and where it cannot, why, and what to do about it."""

from __future__ import annotations

import errno

import pytest

from foregate.agent.sandbox import probe as module
from foregate.agent.sandbox.plan import Failure
from foregate.agent.sandbox.probe import explain, is_passing
from tests.agent.sandbox.place import Place

UBUNTU = "kernel/apparmor_restrict_unprivileged_userns"


def test_the_probe_runs_a_real_sandbox(place: Place) -> None:
    assert place.run_probe() == {"tier": "full", "reason": "", "cure": ""}


def test_the_probe_tells_why_a_plan_cannot_be_held(place: Place) -> None:
    assert place.run_probe(workspace="/nowhere")["tier"] == "none"


@pytest.mark.parametrize(
    ("step", "number", "settings", "reason", "cure"),
    [
        ("map", errno.EACCES, {UBUNTU: "1"}, "AppArmor", "profile"),
        ("private", errno.EPERM, {UBUNTU: "1"}, "AppArmor", "sysctl"),
        ("namespaces", errno.EPERM, {"kernel/unprivileged_userns_clone": "0"}, "ordinary users", "sysctl"),
        ("namespaces", errno.ENOSPC, {"user/max_user_namespaces": "0"}, "turned off", "sysctl"),
        ("namespaces", errno.EPERM, {}, "container", "seccomp"),
        ("proc", errno.EPERM, {}, "/proc", "systempaths=unconfined"),
        ("private", errno.ENOSYS, {}, "Linux", "5.12"),
        ("overlay", errno.EINVAL, {}, "workspace", "local file system"),
        ("upper", errno.EINVAL, {}, "the step", "Foregate's own folder"),
        ("upper", errno.ENOSPC, {}, "the step", "free some space"),
        ("layers", errno.EDQUOT, {}, "the step", "free some space"),
        ("machine", 0, {}, "the step", "Linux"),
        ("fault", 0, {}, "the step", "install Foregate again"),
        ("clone", errno.EIO, {}, "the step", ""),
    ],
)
def test_a_failed_step_has_a_reason_and_a_cure(
    monkeypatch: pytest.MonkeyPatch, step: str, number: int, settings: dict[str, str], reason: str, cure: str
) -> None:
    monkeypatch.setattr(module, "_read_setting", lambda name: settings.get(name, ""))
    monkeypatch.setattr(module.os, "geteuid", lambda: 1000)
    found = explain(Failure(step=step, number=number, sentence=f"the step of the workspace {step} failed"))
    assert found["tier"] == "none"
    assert reason in found["reason"]
    assert cure in found["cure"]
    assert bool(found["cure"]) == bool(cure)


@pytest.mark.parametrize(
    ("step", "number", "passes"),
    [
        ("fault", 0, True),
        ("start", errno.EMFILE, True),
        ("namespaces", errno.EAGAIN, True),
        ("clone", errno.ENOMEM, True),
        ("upper", errno.ENOSPC, True),
        ("layers", errno.EDQUOT, True),
        ("scratch", errno.ENOSPC, True),
        ("namespaces", errno.ENOSPC, False),
        ("namespaces", errno.EPERM, False),
        ("landlock", 0, False),
        ("start", errno.ENOENT, False),
    ],
)
def test_only_what_tells_of_the_machine_says_that_it_has_no_sandbox(step: str, number: int, passes: bool) -> None:
    assert is_passing(step, number) == passes
