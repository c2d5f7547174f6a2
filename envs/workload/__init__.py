"""Offered load: requests, public trace formats and workload models. Knows no server."""
