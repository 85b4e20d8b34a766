"""What it costs to validate a plan of 200 tasks, against the bare json.loads of its text, as a ratio in one run.

Validating checks every dependency, every call against its tool's schema, and every path against a real workspace.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from figures import Report

from foregate.agent.planning.configuration import default_configuration
from foregate.agent.planning.reader import read_plan
from foregate.agent.planning.validator import validate
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.workspace.local import LocalWorkspace
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_spec import build_catalogue

TASKS = 200
PASSAGE = "".join(
    f"    total_{line} = sum(entry.amount for entry in entries if entry.line == {line})\n" for line in range(4)
)


def main() -> int:
    """Print the median ratio of twenty-one interleaved rounds."""
    with tempfile.TemporaryDirectory() as folder:
        text = json.dumps(
            {"goal": "Rename a field everywhere", "tasks": [task(number) for number in range(1, TASKS + 1)]}
        )
        for number in range(TASKS):
            Path(folder, f"part_{number}.py").write_text("teh\n")
        workspace, configuration = LocalWorkspace(folder), default_configuration()
        catalogue = build_catalogue([tool.spec for tool in builtin_tools(workspace, default_policy())])
        plan = read_plan(text, catalogue=catalogue).plan
        assert plan is not None
        rounds = []
        for _ in range(21):
            start = time.process_time_ns()
            json.loads(text)
            middle = time.process_time_ns()
            validation = validate(plan, catalogue, workspace, configuration)
            end = time.process_time_ns()
            assert validation.is_sound, validation.defects[0]
            rounds.append(((end - middle) / 1e6, (middle - start) / 1e6))
    report = Report("planning", "agent/planning", "agent/workspace", "schemas")
    report.add_rounds(f"a plan of {TASKS} tasks", rounds, "ms", most=20)
    return report.end()


def task(number: int) -> dict[str, object]:
    """Return a task as a planner would write it: a look at a file, or the change of a passage in it."""
    path = f"part_{(number - 1) // 2}.py"
    looks = number % 2
    arguments = {"path": path} if looks else {"path": path, "old": PASSAGE, "new": PASSAGE.replace("amount", "value")}
    return {
        "id": number,
        "action": "read_file" if looks else "edit_file",
        "target": path,
        "reason": f"The totals of {path} are computed under the old name of the field, which is gone after this plan.",
        "expected_outcome": "Every total is computed from the new field, and nothing else in the file is changed.",
        "depends_on": [] if looks else [number - 1],
        "calls": [
            {
                "tool": "read_file" if looks else "edit_file",
                "arguments": arguments,
                "description": "See the passage as it is now." if looks else "Use the new name in every line.",
            }
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
