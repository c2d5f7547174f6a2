"""Tuned settings of the controllers that ship with the project, one YAML file a scenario."""
