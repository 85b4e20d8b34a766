"""Plan mode: a model is asked for a plan, a person confirms it, and its tasks run one by one."""
