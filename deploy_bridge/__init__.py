"""Floor 4: the policy meets a live gateway."""
