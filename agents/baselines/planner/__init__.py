"""The analytical planner: a forecast, what a replica can take, and the size that follows."""
