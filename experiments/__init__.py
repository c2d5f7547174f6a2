"""Floor 5: studies, and the command line that runs them."""
