"""The lists of command lines as data: groups that share what the user asked for, one line an entry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, field_validator

from foregate.policy.source.strict_yaml import parse_yaml

LISTS = Path(__file__).parent.parent / "commands"


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Line(_Closed):
    """One command line; written as text where `run` is all there is.

    `after` is what somebody runs in the project later, without a sandbox; `kept` are paths of the project that stay as
    they are unless a person who was asked said yes.
    """

    run: str
    after: str = ""
    kept: tuple[str, ...] = ()

    @field_validator("run", "after")
    @classmethod
    def check_harmless(cls, text: str) -> str:
        """Refuse what would reach the machine even out of a world of its own: settings that are not divided."""
        settings = text.replace("/proc/sys/kernel/hostname", "").replace("/proc/sys/net/", "")
        if "/proc/sys/" in settings or "sysrq" in text or "/sys/" in settings.replace("/proc/sys", ""):
            raise ValueError("names a setting of the whole machine")
        return text


def _line(value: Any) -> Any:
    return {"run": value} if isinstance(value, str) else value


class Group(_Closed):
    """Lines of one class in one project, and what the user `say`s before; `prepare` is run in the project first."""

    name: str
    say: str
    project: str = "python"
    prepare: str = ""
    lines: tuple[Annotated[Line, BeforeValidator(_line)], ...]

    def leave_out_secret(self) -> Group:
        """Return the group without `.env` in its project, where no line names it: in `limited` all work asks for it."""
        if any(".env" in line.run for line in self.lines):
            return self
        return self.model_copy(update={"prepare": f"rm -f .env\n{self.prepare}"})


def read_list(name: str) -> list[Group]:
    """Return the groups of a list; raise PolicyError or pydantic's ValidationError naming what does not fit."""
    data, _ = parse_yaml((LISTS / f"{name}.yaml").read_text("utf-8"), f"commands/{name}.yaml")
    groups: Mapping[str, Any] = data
    return [Group.model_validate_json(json.dumps({"name": group, **body})) for group, body in groups.items()]


def pick_lines(groups: Sequence[Group], every: int) -> tuple[list[Group], list[tuple[Group, Line]]]:
    """Return each `every`th line beside its group, and the groups that have one: the others need no project."""
    lines = [(group, line) for group in groups for line in group.lines][::every]
    return list({group.name: group for group, _ in lines}.values()), lines
