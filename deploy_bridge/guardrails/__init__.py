"""Reasons to say no, one a file."""
