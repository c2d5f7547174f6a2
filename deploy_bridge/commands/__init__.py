"""One module a command of `gatepilot-bridge`."""
