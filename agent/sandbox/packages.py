"""What package managers need in a sandbox without network: the caches they build from, and words to give up at once."""

from __future__ import annotations

PACKAGE_CACHES = (
    ".bun/install/cache",
    ".cache/go-build",
    ".cache/pip",
    ".cache/pnpm",
    ".cache/uv",
    ".cache/yarn",
    ".cargo/git",
    ".cargo/registry",
    ".local/share/pnpm/store",
    ".m2/repository",
    ".npm",
    ".nuget/packages",
    ".yarn/berry/cache",
    "go/pkg/mod",
)
"""Folders of HOME where package managers keep what they fetched and built, each at its usual place."""
PACKAGE_ENVIRONMENT = {
    "CARGO_NET_RETRY": "0",
    "GOTOOLCHAIN": "local",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_RETRIES": "0",
    "UV_HTTP_RETRIES": "0",
    "YARN_HTTP_RETRY": "0",
    "npm_config_audit": "false",
    "npm_config_fetch_retries": "0",
    "npm_config_fund": "false",
    "npm_config_update_notifier": "false",
}
"""Variables that make a fetch without network fail at once, with its own message, instead of trying for a minute."""
