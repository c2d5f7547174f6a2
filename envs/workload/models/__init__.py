"""Workload models shipped as JSON: facts fitted to public traces, no request rows."""
