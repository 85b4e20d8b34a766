"""Where a policy comes from: YAML files, their layers, and what a workspace may tighten."""
