"""Shows a person what a plan would do, takes their answer, and takes a task through its plan."""
