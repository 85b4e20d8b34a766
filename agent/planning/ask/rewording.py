"""How a request no plan could be made of may be worded instead, by what was wrong with the plans."""

from __future__ import annotations

import re
from collections.abc import Iterable

from foregate.policy.source.strict_yaml import escape_text
from foregate.schemas.task_plan import PlanDefect

MODEL = "model"
"""The field of a defect that is no plan's: the model could not be asked."""

_BETWEEN = re.compile(r"[;,]|\.\s|\n|\b(?:and|then)\b", re.IGNORECASE)
_LONGEST = 120
_ADVICE = (
    (
        re.compile(r"depends_on|when|id"),
        "Say what comes first and what follows from it, such as: First run the tests; if they fail, mend src/a.py; "
        "then run them again.",
    ),
    (
        re.compile(r"action|calls\.\d+\.tool"),
        "Say what is to be done with what, such as: Read src/a.py, replace teh by the in it, and commit it.",
    ),
    (
        re.compile(r"target|calls\.\d+\.arguments\..*"),
        "Name each file by its path in this folder, such as: Replace teh by the in src/a.py.",
    ),
    (
        re.compile(r"calls\.\d+\.arguments"),
        "Say exactly what is to change and to what, such as: In src/a.py replace teh by the.",
    ),
)


def suggest_rewording(query: str, defects: Iterable[PlanDefect]) -> str:
    """Return the sentence that says how `query` could be worded, chosen by the first defect that tells."""
    fields = [defect.field for defect in defects]
    for form, advice in _ADVICE:
        if any(form.fullmatch(field) for field in fields):
            return advice
    part = _BETWEEN.split(query.strip(), maxsplit=1)[0].strip()
    if part and part != query.strip():
        return f"Ask for one thing at a time, such as: {escape_text(part, _LONGEST)}"
    again = "Say it again" if fields and set(fields) == {MODEL} else "Say it in smaller steps"
    return f"{again}, and name the files and what to do with them, such as: Read README.md and list what is in src."
