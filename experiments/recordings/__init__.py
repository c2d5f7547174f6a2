"""What real programs did, recorded: the engine is held against it at any time, without them."""
