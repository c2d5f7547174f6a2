"""The scenarios that ship with the project, one YAML file each."""
