"""The version of Foregate, on the lowest floor because the log, the wire and the telemetry all name it."""

__version__ = "0.2.0"
