"""Servers that are no play: LiteLLM's proxy before played servers, and llama.cpp with a model of random weights."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from foregate.agent.loop.runner import run
from foregate.telemetry.log.memory_log import MemoryLog
from serving.cases import Case, Ended, World, judge, play_against
from serving.row import read_table
from serving.server import KEY, Played, listen
from serving.tiny import write_model

PYTHON = "BENCHMARK_SERVERS"
"""The variable that names the Python in which the servers are installed; this one without it."""
BEHIND = ("OpenAI", "Ollama", "Mistral")
"""The rows that LiteLLM stands before."""
KINDS = ("whole", "streamed", "resumed")
CONTEXT = 16384
"""Tokens that the tiny model reads, each of them a byte: the prompt and one tool take a third of it."""
PACKAGES: Mapping[str, Sequence[str]] = {"litellm": ("litellm",), "llama.cpp": ("xllamacpp", "llama_cpp")}
INSTALL = {"litellm": "litellm[proxy]", "llama.cpp": "llama-cpp-python[server]` or `xllamacpp"}
MOST_SECONDS = 60
"""Seconds that a case of the tiny model may take."""
STARTS = 90
"""Seconds that a server may take to start."""


def find_missing(name: str) -> str:
    """Return why a server cannot run here, "" where it can."""
    code = f"from importlib.util import find_spec; print(any(map(find_spec, {PACKAGES[name]!r})))"
    asked = subprocess.run([find_python(), "-c", code], capture_output=True, text=True, check=False)
    if asked.stdout.strip() == "True":
        return ""
    return f"not installed: `pip install {INSTALL[name]}`, and name its Python by {PYTHON}"


def find_python() -> str:
    """Return the interpreter that runs the servers."""
    return os.environ.get(PYTHON, sys.executable)


def play_real(name: str) -> list[Ended]:
    """Play the cases of a real server; what goes wrong in one is said in its end."""
    return asyncio.run(_play_litellm() if name == "litellm" else _play_llama())


@asynccontextmanager
async def _start(command: Sequence[str], folder: Path, ask: str) -> AsyncIterator[None]:
    """Run a server until the context ends; it is there once `ask` is answered. Raises RuntimeError where it is not."""
    server = _spawn(command, folder)
    try:
        for _ in range(STARTS * 5):
            if server.poll() is not None or await asyncio.to_thread(_is_there, ask):
                break
            await asyncio.sleep(0.2)
        if server.poll() is not None or not _is_there(ask):
            raise RuntimeError(f"the server did not start: {(folder / 'server.log').read_text('utf-8')[-500:]}")
        yield
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _spawn(command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a process group whose words go to a file; LiteLLM asks nobody for prices."""
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_MASTER_KEY": KEY}
    env = {**os.environ, **quiet, "HOME": str(folder), "NO_PROXY": "*"}
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True)


def _is_there(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _find_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def _play_litellm() -> list[Ended]:
    """Play cases of some rows through the proxy."""
    rows = [read_table()[name] for name in BEHIND]
    ends: list[Ended] = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        played = [
            await stack.enter_async_context(listen(Played(row, [one for one in row.refuses if not one.case])))
            for row in rows
        ]
        listed = [
            {"model_name": one.row.model, "litellm_params": {"model": f"openai/{one.row.model}", "api_base": one.url}}
            for one in played
        ]
        for entry in listed:
            entry["litellm_params"]["api_key"] = "x"
        (folder / "config.yaml").write_text(json.dumps({"model_list": listed}))
        port = _find_port()
        start = "from litellm import run_server; run_server()"
        command = [find_python(), "-c", start, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
        await stack.enter_async_context(_start(command, folder, f"http://127.0.0.1:{port}/health/liveliness"))
        for one in played:
            one.url = f"http://127.0.0.1:{port}/v1"
            for kind in KINDS:
                with tempfile.TemporaryDirectory() as place:
                    ended = Ended(Case(one.row.name, f"{kind} through LiteLLM"))
                    await play_against(World(one.row, Path(place)), one, kind, ended)
                    judge(one.row, ended)
                    ends.append(ended)
    return ends


async def _play_llama() -> list[Ended]:
    """Have a model of random weights answer: in words, in JSON, and after more than it can read."""
    row = read_table()["llama.cpp"]
    ends: list[Ended] = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_model(folder / "tiny.gguf", CONTEXT)
        port = _find_port()
        program = str(Path(__file__).with_name("run_llama.py"))
        command = [find_python(), program, str(folder / "tiny.gguf"), str(port), str(CONTEXT)]
        await stack.enter_async_context(_start(command, folder, f"http://127.0.0.1:{port}/v1/models"))
        played = Played(row, [])
        played.url = f"http://127.0.0.1:{port}/v1"
        long = "long " * (CONTEXT // 12)
        for kind, texts, is_too_long in (
            ("words", ("Say hello.",), False),
            ("streamed words", ("Say hello.",), False),
            ("a message that is too long", ("long " * CONTEXT,), True),
            ("a conversation that is too long", (long, long, "Bye."), False),
        ):
            ended = Ended(Case(row.name, f"{kind}, for real"))
            await _bound(_talk(World(row, folder / kind), played, texts, ended, is_too_long=is_too_long), ended)
            ends.append(ended)
        strict = Ended(Case(row.name, "strict, for real"))
        await _bound(play_against(World(row, folder / "strict"), played, "strict", strict), strict)
        judge(row, strict)
        ends.append(strict)
    return ends


async def _bound(playing: Awaitable[None], ended: Ended) -> None:
    """Play a case within some time; what goes wrong in it is said in its end."""
    try:
        await asyncio.wait_for(playing, MOST_SECONDS)
    except Exception as error:
        ended.wrong = f"{type(error).__name__}: {str(error)[:300]}"


async def _talk(world: World, played: Played, texts: Sequence[str], ended: Ended, *, is_too_long: bool) -> None:
    """Say texts one after the other: the last ends with an answer or one sentence, and no tool ran by chance."""
    opened = await world.open(played, MemoryLog(), stream="streamed" in ended.case.kind, builtin=False)
    try:
        for text in texts:
            outcome = await run(opened.session, text)
    finally:
        await opened.close()
    ended.said = outcome.text or outcome.report.blocker
    ended.done = outcome.status == "completed"
    ended.doubled = sum(world.entries.values())
    if outcome.status not in ("completed", "blocked", "failed") or (not ended.done and not ended.said):
        ended.wrong = f"ended as {outcome.status}: {ended.said[:200]}"
    elif is_too_long != ("too long" in ended.said):
        ended.wrong = f"ended with: {ended.said[:300]}"
