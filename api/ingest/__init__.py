"""Data of other tools: traces of OpenTelemetry and chat logs, read and recorded as runs from outside."""
