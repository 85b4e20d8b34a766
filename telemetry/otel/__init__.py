"""OpenTelemetry: spans and metrics made from a session's events. A projection; the log stays the record."""
