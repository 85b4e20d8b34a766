"""The tools of another process over a WebSocket, believed no further than the policy lets them."""
