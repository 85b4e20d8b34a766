"""Types of the public names, checked by mypy and never run."""

from typing import assert_type

from foregate.policy.load import default_policy
from foregate.policy.policy import Policy
from foregate.schemas.tool_call import ToolCall

assert_type(default_policy(), Policy)
assert_type(ToolCall.of("read_file", {"path": "a"}), ToolCall)
assert_type(ToolCall.of("read_file", {"path": "a"}).digest, str)
