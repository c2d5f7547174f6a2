"""Who decides: rules that look at a snapshot, and policies that were learned."""
