"""The sealed policy: what is in it, how it is made, checked and run."""
