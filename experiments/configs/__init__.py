"""Training configurations that ship, as YAML."""
