"""Gatepilot: reinforcement learning that tunes an LLM gateway."""
