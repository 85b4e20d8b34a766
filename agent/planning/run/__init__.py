"""Takes a task through its plan: shown, confirmed, run task by task, rolled back and reported."""
