"""An MCP server over streamable HTTP on a free port of the loopback, printed on the first line of its output."""

import asyncio
import os
import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import PlainTextResponse

server = MCPServer("over http")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def wait() -> str:
    """Wait without end."""
    await asyncio.sleep(3600)
    return ""


@server.tool()
def leave() -> str:
    """End the server."""
    os._exit(0)


async def only_with_the_token(request, call_next):
    if request.headers.get("authorization") != "Bearer right":
        return PlainTextResponse("no", status_code=401)
    return await call_next(request)


app = server.streamable_http_app(json_response="json" in sys.argv)
app.user_middleware.append(Middleware(BaseHTTPMiddleware, dispatch=only_with_the_token))
listening = socket.socket()
listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listening.bind(("127.0.0.1", int(os.environ.get("PORT", "0"))))
listening.listen()
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])
