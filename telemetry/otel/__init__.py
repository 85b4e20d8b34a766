"""OpenTelemetry: spans and metrics made from a session's events. The log stays the record."""
