"""What is known of a live gateway, and what the bridge says of itself."""
