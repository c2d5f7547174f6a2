"""The real bridge controller against the simulated gateway on a virtual clock."""
