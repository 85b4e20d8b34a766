"""Running cases under a policy: what was expected, what came out, and a report that build servers read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from msgspec import Struct

from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, UsageError
from foregate.schemas.strict_json import Json
from foregate.schemas.visible import make_visible
from foregate.tuning.case import Case, Fate, judge_case
from foregate.tuning.case_file import read_case

ENDINGS = (".yaml", ".yml")


class CaseResult(Struct, frozen=True):
    """A case with what became of its call under a policy, None where it could not be judged, for the reason `error`."""

    file: str
    case: Case
    found: Fate | None
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether exactly what was expected came out: verdict, gate, code, rules, and who is asked."""
        return self.found is not None and self.found == self.case.expected

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        expected = self.case.expected.describe()
        if self.passed:
            return f"{self.case.name}: {expected}"
        found = self.found.describe() if self.found is not None else f"it cannot be judged: {self.error}"
        return f"{self.case.name}: expected {expected}; got {found}"

    def to_json(self) -> dict[str, Json]:
        """Return the result as JSON values."""
        return {
            "file": self.file,
            "case": self.case.name,
            "passed": self.passed,
            "expected": _dump_fate(self.case.expected),
            "found": _dump_fate(self.found) if self.found is not None else None,
            "error": self.error,
        }


def _dump_fate(fate: Fate) -> dict[str, Json]:
    return {"rules": [], "asked": [], **strict_json.dump(fate)}


def list_case_files(named: Sequence[Path]) -> list[Path]:
    """Return the files that hold cases: those named, and in folders every YAML file; raise UsageError for none."""
    found: dict[Path, None] = {}
    for path in named:
        inside = sorted(one for one in path.rglob("[!.]*") if one.suffix in ENDINGS) if path.is_dir() else [path]
        if not inside:
            raise UsageError(f"`{path}` holds no case; `foregate policy case SESSION:SEQ.GATE` writes one")
        found |= dict.fromkeys(inside)
    return list(found)


def read_cases(files: Iterable[Path]) -> Iterator[tuple[str, Case]]:
    """Yield each file's case; raise PolicyError for a file that holds none."""
    for file in files:
        yield str(file), read_case(file)


def run_case(file: str, case: Case, policy: Policy) -> CaseResult:
    """Return what becomes of a case under a policy."""
    try:
        return CaseResult(file, case, judge_case(case, policy))
    except (ForegateError, LookupError, TypeError, ValueError, AttributeError) as error:
        return CaseResult(file, case, None, f"{type(error).__name__}: {error}".splitlines()[0][:200])


def format_junit(results: Sequence[CaseResult], policy: str) -> str:
    """Return the results as a JUnit report; control characters in them are written out."""
    failures = sum(result.found is not None and not result.passed for result in results)
    errors = sum(result.found is None for result in results)
    counts = {"tests": str(len(results)), "failures": str(failures), "errors": str(errors)}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": make_visible(f"policy {policy}"), **counts})
    for result in results:
        about = {"classname": make_visible(result.file), "name": make_visible(result.case.name)}
        case = ElementTree.SubElement(suite, "testcase", about)
        if not result.passed:
            kind, code = ("error", "error") if result.found is None else ("failure", result.found.code)
            said = make_visible(result.sentence)
            ElementTree.SubElement(case, kind, {"type": code, "message": said}).text = said
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'
