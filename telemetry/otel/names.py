"""Every name of the OpenTelemetry projection, in one place.

The names that begin with `gen_ai.` follow the GenAI part of the OpenTelemetry semantic conventions 1.41.0, the last
version that holds it in the common repository; its status is Development. One is younger: TOOL_DURATION is from the
unreleased successor, open-telemetry/semantic-conventions-genai. Decisions of gates have no agreed name in either, so
they stand under `foregate.`, and so does everything else the conventions do not know.
"""

from __future__ import annotations

VERSION = "1.41.0"
"""The version of the semantic conventions these names follow."""
SCHEMA_URL = f"https://opentelemetry.io/schemas/{VERSION}"

# Operations of the conventions; a span's name is its operation, then the agent, the model or the tool.
INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
# Spans and span events of Foregate.
PRELUDE = "prelude"
DECISION = "foregate.decision"
APPROVAL = "foregate.approval"

# Attributes of the conventions.
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
AGENT = "gen_ai.agent.name"
AGENT_VERSION = "gen_ai.agent.version"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - the name of an attribute
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL = "gen_ai.tool.call.id"
ERROR_TYPE = "error.type"
OTHER = "_OTHER"
"""The conventions' value for what is in no closed list."""

# Content, by the conventions; exported only where it is asked for.
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
USER = "user.name"

# Attributes of Foregate.
TASK = "foregate.task.number"
DEPTH = "foregate.task.depth"
STATUS = "foregate.task.status"
HOLDS = "foregate.task.holds"
TURNS = "foregate.task.turns"
MODEL_CALLS = "foregate.task.model_calls"
TOOL_CALLS = "foregate.task.tool_calls"
TOKENS = "foregate.task.tokens"
COST = "foregate.task.cost"
TURN = "foregate.turn"
ACTOR = "foregate.actor"
PURPOSE = "foregate.purpose"
EVENT = "foregate.event"
POLICY = "foregate.policy.hash"
ADDRESS = "foregate.decision.address"
GATE = "foregate.gate"
MODE = "foregate.mode"
CODE = "foregate.code"
SEVERITY = "foregate.severity"
RULING = "foregate.ruling"
RULES = "foregate.rules"
CONSEQUENCE = "foregate.consequence"
EFFECT = "foregate.effect"
SIDE_EFFECT = "foregate.side_effect.class"
JUDGED = "foregate.judged"
CHOICE = "foregate.approval.choice"
WAITED = "foregate.approval.waited"

# Content of Foregate; exported only where content is asked for.
SUMMARY = "foregate.summary"
TARGET = "foregate.target"

# Metrics of the conventions, seconds and tokens.
TOKEN_USAGE = "gen_ai.client.token.usage"  # noqa: S105 - the name of a metric
OPERATION_DURATION = "gen_ai.client.operation.duration"
TOOL_DURATION = "gen_ai.execute_tool.duration"
# Metrics of Foregate.
DECISIONS = "foregate.decisions"
APPROVALS = "foregate.approvals"
TASK_HOLDS = "foregate.task.holds"
PRELUDE_DURATION = "foregate.prelude.duration"
