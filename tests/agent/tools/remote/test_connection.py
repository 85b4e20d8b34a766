"""A connection that is used after its end says that it is closed, also where it closed with data left to write."""

from __future__ import annotations

import asyncio

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from foregate.agent.serving.websocket_server import EndingServer
from foregate.agent.tools.remote_connection import EndingClient

LEFT = b"\x00" * 8_000_000
"""More bytes than the buffers of a socket take while the other side does not read."""


async def end_with_data_left(one: Connection, other: Connection) -> None:
    """Close the transport of one side while it still has data to write, and let the other side read it."""
    other.transport.pause_reading()  # type: ignore[attr-defined]
    one.transport.write(LEFT)
    one.transport.close()
    other.transport.resume_reading()  # type: ignore[attr-defined]
    await one.connection_lost_waiter


@pytest.mark.parametrize("side", ["client", "server"])
async def test_what_is_sent_after_the_end_is_refused_as_closed(side: str) -> None:
    served: asyncio.Future[ServerConnection] = asyncio.get_running_loop().create_future()

    async def handle(connection: ServerConnection) -> None:
        served.set_result(connection)
        await connection.wait_closed()

    async with (
        serve(handle, "127.0.0.1", 0, create_connection=EndingServer) as server,
        connect(
            f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", create_connection=EndingClient, proxy=None
        ) as client,
    ):
        one, other = (client, await served) if side == "client" else (await served, client)
        await end_with_data_left(one, other)
        with pytest.raises(ConnectionClosed):
            await one.send("more")
        await one.close()
        one.transport.abort()
