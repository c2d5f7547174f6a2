"""The world: simulated gateway, its workload, profiles, scenarios and the contract."""
