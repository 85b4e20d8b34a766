"""The personal memory: one small file, read strictly, written in one step."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from foregate.agent.tools.memory import Memory, recall, remember
from foregate.agent.tools.tool import Toolbox
from foregate.policy.policy import Policy
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.tool_call import Origin, ToolCall
from tests.agent.running import run_alone
from tests.policies import policy_with


async def test_what_was_remembered_comes_back_as_somebody_elses_words(tmp_path: Path, policy: Policy) -> None:
    path = tmp_path / "home/memory.json"
    box = Toolbox([remember(Memory(path, policy), policy), recall(Memory(path, policy), policy)])
    for text in ("likes tea", "likes coffee"):
        result = await run_alone(box, ToolCall.of("remember", {"key": "drink", "text": text}))
        assert result.ok
    assert "before it was: likes tea" in result.content
    found = await run_alone(box, ToolCall.of("recall", {"query": "COFFEE"}))
    assert (found.content, found.origin) == ("drink: likes coffee", Origin.EXTERNAL)
    assert (await run_alone(box, ToolCall.of("recall", {"key": "x"}))).content == "nothing remembered"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert all(spec.capabilities and spec.capabilities.personal_memory for spec in box.specs())


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b'{"version":1,"texts":{"a":"1","a":"2"}}',
        b'{"version":2,"texts":{}}',
        b'{"version":1,"texts":[]}',
        b"\xff",
    ],
)
def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path, policy: Policy, data: bytes) -> None:
    path = tmp_path / "memory.json"
    path.write_bytes(data)
    with pytest.raises(WorkspaceError):
        Memory(path, policy).put("a", "b")
    assert path.read_bytes() == data


def test_the_memory_does_not_grow_beyond_its_bound(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory.json", policy_with({"files.max_read": 100}))
    memory.put("a", "x" * 50)
    with pytest.raises(WorkspaceError, match="larger than 100"):
        memory.put("b", "x" * 50)
    assert list(memory.read_all()) == ["a"]


def test_a_link_is_not_read_through(tmp_path: Path, policy: Policy) -> None:
    (tmp_path / "real.json").write_text('{"version":1,"texts":{}}')
    (tmp_path / "memory.json").symlink_to("real.json")
    with pytest.raises(WorkspaceError):
        Memory(tmp_path / "memory.json", policy).read_all()


def test_writers_at_once_lose_nothing(tmp_path: Path, policy: Policy) -> None:
    path = tmp_path / "memory.json"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: Memory(path, policy).put(str(number), "x"), range(24)))
    assert len(Memory(path, policy).read_all()) == 24
    assert sorted(item.name for item in tmp_path.iterdir()) == ["memory.json", "memory.json.lock"]
