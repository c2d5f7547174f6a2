"""Serving profiles: how long an engine iteration lasts, with the source of every number."""
