"""What package managers are told of the network: to give up at once, and to look for no news of themselves."""

from __future__ import annotations

from foregate.agent.sandbox.plan import GivenAccess

_NO_NEWS = {
    "GOTOOLCHAIN": "local",
    "NO_UPDATE_NOTIFIER": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "npm_config_update_notifier": "false",
}
NO_RETRIES = {
    "BUNDLE_RETRY": "0",
    "CARGO_NET_RETRY": "0",
    "CONDA_REMOTE_MAX_RETRIES": "0",
    "PIP_RETRIES": "0",
    "POETRY_REQUESTS_MAX_RETRIES": "0",
    "UV_HTTP_RETRIES": "0",
    "YARN_HTTP_RETRY": "0",
    "npm_config_fetch_retries": "0",
}


def build_network_environment(access: GivenAccess) -> dict[str, str]:
    """Return the variables of a program in a sandbox with this access."""
    return _NO_NEWS | ({} if access["network"] == "open" else NO_RETRIES)
