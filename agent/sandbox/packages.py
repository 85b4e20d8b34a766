"""What package managers need in a sandbox without network: the caches they build from."""

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
