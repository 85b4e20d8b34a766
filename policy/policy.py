"""The typed policy: every number, weight and list a gate uses. The values are in YAML, none in code."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from foregate.policy.commands_section import Commands
from foregate.policy.mandate_section import Mandate, SourceEntry
from foregate.policy.section import Count, Http, PolicySection, Postlude, Runtime, Sensitive, Serving, Thousandths
from foregate.schemas import strict_json
from foregate.schemas.judgement import Mode
from foregate.schemas.tool_call import EvidenceKind, Origin
from foregate.schemas.tool_spec import Effect, ResourceKind


class Limits(PolicySection):
    """How much one task may use; 0 is unlimited. `wall_clock` in seconds, `cost` in micro-units."""

    turns: Count
    model_calls: Count
    tool_calls: Count
    tokens: Count
    cost: Count
    wall_clock: Count
    verification_rounds: Count
    calls_per_response: Count
    identical_changes: Count
    identical_observations: Count
    repeated_holds: Count
    malformed_calls: Count
    futile_turns: Count
    needs_per_gate: Count
    parallel_calls: Annotated[int, Field(ge=1)]
    child_depth: Count


class Safety(PolicySection):
    """The planner's and the critic's own budget per task."""

    model_calls: Count
    rounds: Count


class Scope(PolicySection):
    """How broad a call may be before it counts as risky."""

    max_resources: Count


class Validity(PolicySection):
    """How arguments are read."""

    closed_arguments: Literal["builtin", "all"]
    max_bytes: Count
    max_depth: Annotated[int, Field(ge=1, le=64)]
    max_references: Annotated[int, Field(ge=1)]


class Rule(PolicySection):
    """One rule: every matcher given must match. Globs are `*`, `**` and `?`; patterns never run on Python's `re`.

    An allow rule that `stands_for` approval is a person's yes to what it matches.
    """

    id: Annotated[str, Field(min_length=1, pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
    then: Literal["deny", "ask", "allow"]
    message: str = ""
    stands_for: Literal["approval"] | None = None
    tool: str | None = None
    effect: tuple[Effect, ...] | None = None
    kind: ResourceKind | None = None
    resource: str | None = None
    protected: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    host: str | None = None
    capability: tuple[str, ...] | None = None
    risk_at_least: Thousandths | None = None
    origin: Origin | None = None
    secrets: bool | None = None


class Rules(PolicySection):
    """Operator's rules: deny > ask > allow, whatever the order in the file."""

    mode: Mode
    unmatched: Literal["allow", "ask", "deny"]
    refused_before: bool
    list: tuple[Rule, ...]

    @cached_property
    def guarded(self) -> Sequence[tuple[Rule, Collection[str] | None, bool]]:
        """Each rule with the protections without which it surely matches nothing, None where it may or nobody can tell,
        and whether it surely does not without a secret."""
        found = []
        for rule in self.list:
            plain = (rule.tool, rule.resource, rule.command, rule.host, rule.capability) == (None,) * 5
            found.append((rule, rule.protected if plain else None, plain and rule.secrets is True))
        return found

    @cached_property
    def standing(self) -> tuple[Rule, ...]:
        """Those that stand for a person's yes."""
        return tuple(rule for rule in self.list if rule.stands_for == "approval" and rule.then == "allow")


class Narration(PolicySection):
    """Saying what was understood before acting."""

    mode: Mode
    scope: Literal["risky", "first_side_effect", "first_response"]
    min_chars: Count
    max_holds: Count


class Drift(PolicySection):
    """Acting where only words were asked for."""

    mode: Mode
    trigger: Literal["contract", "no_mutation_no_observation"]
    wishes: Literal["contract", "effects"]
    lasts: Literal["request", "task"]
    max_holds: Count


class Uncertainty(PolicySection):
    """Asking before acting on too little."""

    mode: Mode
    threshold: Thousandths


class Requirement(PolicySection):
    """Evidence a call needs on each own resource of `kind` it would do `effects` to, if the resource exists. `accepts`
    lists evidence kinds; `remedy` is the tool that would bring it (with `parameter` set to the resource). `content`:
    `same` needs the current content observed; `not_changed` is content with having seen the thing, unless its content
    was observed and has changed; `any` never compares. `whole` needs all of the content observed."""

    effects: tuple[Effect, ...]
    kind: ResourceKind
    accepts: tuple[EvidenceKind, ...]
    content: Literal["same", "not_changed", "any"]
    whole: bool
    remedy: str
    parameter: str


class Evidence(PolicySection):
    """Having looked before changing."""

    mode: Mode
    requirements: tuple[Requirement, ...]


class Unavailable(PolicySection):
    """What follows when advice fails: for dangerous calls (external, irreversible, high impact) and for others."""

    dangerous: Literal["ask", "hold", "proceed"]
    other: Literal["ask", "hold", "proceed"]


class PlanSection(PolicySection):
    """A plan before risk; one in `form` blind is made without a look at the calls. `max_bytes` bounds the plan's JSON,
    which every decision about it records."""

    mode: Mode
    shadow_asks: bool
    form: Literal["blind", "call"]
    due: Literal["risky", "first_side_effect"]
    depth: Literal["every", "top_level"]
    changed_resources: Count
    binding: Literal["scope", "steps", "first_action"]
    max_amendments: Count
    max_bytes: Annotated[int, Field(ge=256)]
    on_unavailable: Unavailable


class CritiqueSection(PolicySection):
    """A second look at a plan or a call. `max_bytes` bounds the critique's JSON."""

    mode: Mode
    shadow_asks: bool
    level: Literal["off", "doubt", "plan", "call"]
    max_bytes: Annotated[int, Field(ge=256)]
    risk: Thousandths
    uncertainty: Thousandths
    risk_in_doubt: Thousandths
    on_unavailable: Unavailable
    on_invalid: Unavailable
    on_budget_exhausted: Literal["ask", "proceed"]


class Approval(PolicySection):
    """A person's yes. `expires` in seconds, 0 = never."""

    mode: Literal["each", "scope", "never"]
    reads: Literal["free", "ask"]
    expires: Count


class Contract(PolicySection):
    """Phrases that tell what a request wants; whole words, any case. No match is `unknown`."""

    text_only: tuple[str, ...]
    exceptions: tuple[str, ...]
    mutation: tuple[str, ...]
    observation: tuple[str, ...]
    about: tuple[str, ...]
    determiners: tuple[str, ...]
    negations: tuple[str, ...]
    pivots: tuple[str, ...]
    destinations: tuple[str, ...]


class RiskWeights(PolicySection):
    """Weights of the risk score in thousandths, combined by noisy-or."""

    effect: dict[Effect, Thousandths]
    external: Thousandths
    irreversible: Thousandths
    high_impact: Thousandths
    broad: Thousandths
    wide_pattern: Thousandths
    protected: Thousandths
    untrusted_origin: Thousandths
    destructive_words: Thousandths


class UncertaintyWeights(PolicySection):
    """Weights of the uncertainty score in thousandths, combined by noisy-or."""

    target_unmentioned: Thousandths
    target_untrusted: Thousandths
    target_namesake: Thousandths
    target_kept: Thousandths
    destructive_without_scope: Thousandths
    deletion_unasked: Thousandths
    target_told: Thousandths
    vague_request: Thousandths
    conflicting_constraints: Thousandths
    just_failed: Thousandths


class Scores(PolicySection):
    """How risk and uncertainty are measured."""

    risk: RiskWeights
    uncertainty: UncertaintyWeights
    destructive_words: tuple[str, ...]
    vague_words: tuple[str, ...]
    filler_words: tuple[str, ...]
    confirmations: tuple[str, ...]
    keep_words: tuple[str, ...]
    conflicts: tuple[tuple[str, str], ...]


class TargetEntry(PolicySection):
    """A parameter that names a resource."""

    kind: ResourceKind
    access: Effect


class ToolEntry(PolicySection):
    """What the operator says of a tool; beats what the tool says of itself. Keys left out keep the declaration."""

    effect: Effect | None = None
    read_only: bool | None = None
    external_side_effect: bool | None = None
    needs_approval: bool | None = None
    idempotent: bool | None = None
    high_impact_write: bool | None = None
    reversible: bool | None = None
    personal_memory: bool | None = None
    targets: dict[str, TargetEntry] | None = None
    amounts: tuple[str, ...] | None = None
    texts: tuple[str, ...] | None = None


class Context(PolicySection):
    """How much of a conversation a model is sent; `max_tokens` estimated or counted, 0 = unlimited."""

    max_tokens: Count
    strategy: Literal["summary", "keep_ends", "none"]
    keep_first: Count
    keep_last: Count


class Mcp(PolicySection):
    """Servers of MCP. Times in seconds but for `backoff` (milliseconds), sizes in bytes but for `max_description`."""

    start_timeout: Annotated[int, Field(ge=1)]
    call_timeout: Annotated[int, Field(ge=1)]
    stop_timeout: Annotated[int, Field(ge=1)]
    restarts: Count
    backoff: Annotated[int, Field(ge=1)]
    max_tools: Annotated[int, Field(ge=1)]
    max_description: Annotated[int, Field(ge=1)]
    max_definition: Annotated[int, Field(ge=1)]
    max_depth: Annotated[int, Field(ge=1, le=64)]
    max_message: Annotated[int, Field(ge=1024)]
    max_traffic: Annotated[int, Field(ge=1024)]
    max_result: Annotated[int, Field(ge=1)]
    max_stderr: Annotated[int, Field(ge=1)]
    environment: tuple[str, ...]


class SelfRunning(PolicySection):
    """Files that a program runs without being asked to, by globs; `when` says which program and when, as the end of a
    sentence. With `keys`, dotted ones of JSON or TOML, only what a change puts under one of them counts."""

    paths: tuple[str, ...]
    when: Annotated[str, Field(min_length=1)]
    keys: tuple[str, ...] = ()


class Files(PolicySection):
    """Which paths are protected, and how much is read. Sizes in bytes."""

    protected: tuple[str, ...]
    secret: tuple[str, ...]
    runs_by_itself: tuple[SelfRunning, ...]
    build_output: tuple[str, ...]
    executed_caches: tuple[str, ...]
    max_read: Annotated[int, Field(ge=1)]
    max_output: Annotated[int, Field(ge=1)]
    max_hash: Annotated[int, Field(ge=1)]
    max_entries: Annotated[int, Field(ge=1)]
    max_survey: Annotated[int, Field(ge=1)]

    @cached_property
    def guarded(self) -> tuple[str, ...]:
        """The paths that are protected or secret, by which most paths are told to be neither at once."""
        return (*self.protected, *self.secret)

    @cached_property
    def self_running(self) -> frozenset[tuple[str, ...]]:
        """The paths of each entry of `runs_by_itself`, to be asked for the path of each change."""
        return frozenset(entry.paths for entry in self.runs_by_itself)


WORDS_FROM = ("scores", "mandate", "contract", "commands")
"""Sections with the lists of words by which texts and commands are read."""
SCORES = (("scores", "risk"), ("scores", "uncertainty"))
"""Parts of those sections that no text is read by."""


class Policy(PolicySection):
    """The whole policy. Instances are values: two policies with the same content have the same `hash`."""

    version: Literal[1]
    holds: Literal["call", "whole_response"]
    limits: Limits
    safety: Safety
    scope: Scope
    validity: Validity
    rules: Rules
    narration: Narration
    drift: Drift
    uncertainty: Uncertainty
    evidence: Evidence
    plan: PlanSection
    critique: CritiqueSection
    approval: Approval
    postlude: Postlude
    mandate: Mandate
    contract: Contract
    scores: Scores
    tools: dict[str, ToolEntry]
    sources: dict[str, SourceEntry]
    context: Context
    commands: Commands
    http: Http
    mcp: Mcp
    serving: Serving
    runtime: Runtime
    files: Files
    sensitive: Sensitive
    # Notes what is read, in what stands for a policy in `followed.py`.
    reading: ClassVar[Any] = None

    @cached_property
    def plans_blind(self) -> bool:
        """Whether a plan is made from the person's words alone, which takes a mandate."""
        return self.plan.form == "blind" and self.mandate.mode != "off"

    @cached_property
    def words_hash(self) -> str:
        """SHA-256 over the lists of words by which texts and commands are read: no threshold is among them."""
        scores = {key: value for key, value in self.scores.recorded.items() if ("scores", key) not in SCORES}
        return strict_json.digest([scores, self.mandate.hash, self.contract.hash, self.commands.hash])
