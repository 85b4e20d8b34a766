"""The configuration of plan mode: both models, what a plan may hold, what is shown and what is kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

PlanMode = Literal["direct", "plan", "auto"]
Confirmation = Literal["always", "dangerous", "as_planned"]
Compression = Literal["keep_ends", "summary", "none"]


class Section(BaseModel):
    """Every key is in default.yaml, so that none is a surprise."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ModelConfiguration(Section):
    """One model. An empty `provider`, `base_url` or `model` is what the session uses; `max_tokens` is per response."""

    provider: Literal["", "openai", "rehearsal"]
    base_url: str
    model: str
    temperature: float = Field(ge=0, le=2)
    max_tokens: int = Field(ge=1)


class Models(Section):
    """The model that plans and the one that fills in calls."""

    planning: ModelConfiguration
    execution: ModelConfiguration


class PlanningSection(Section):
    """What the planner is asked for, and how often."""

    planning_tries: int = Field(ge=1, le=10)
    min_tasks: int = Field(ge=1)
    max_tasks_asked: int = Field(ge=1)
    max_plans: int = Field(ge=1)


class ValidationSection(Section):
    """What a plan may be."""

    max_tasks: int = Field(ge=1)
    max_task_depth: int = Field(ge=1)
    allow_tool_fallback: bool
    strict_targets: bool


class ExecutionSection(Section):
    """How a plan runs."""

    confirmation: Confirmation
    strict_dependencies: bool
    parallel_observations: bool


class ContextSection(Section):
    """How much of earlier results a model reads."""

    max_tokens: int = Field(ge=1)
    compression_strategy: Compression
    keep_first_tasks: int = Field(ge=0)
    keep_last_tasks: int = Field(ge=0)


class FormattingSection(Section):
    """How a result is written; `max_content_length` is in characters."""

    max_content_length: int = Field(ge=1)
    truncate_large_outputs: bool
    include_reasoning: bool


class Configuration(Section):
    """The configuration of plan mode."""

    version: Literal[1]
    mode: PlanMode
    models: Models
    planning: PlanningSection
    validation: ValidationSection
    execution: ExecutionSection
    context: ContextSection
    formatting: FormattingSection


def load_configuration(
    named: Path | str | None = None, environ: Mapping[str, str] = os.environ
) -> Configuration:
    """Return the configuration in force: default.yaml with a file's keys over it.

    The file is `named`, else the one FOREGATE_CONFIG names, else `foregate/planning.yaml` in the user's configuration
    folder where it exists. Raises PolicyError with one sentence that names file, line and key.
    """
    raise NotImplementedError
