"""What is good: pure, vectorised functions of the contract. Knows no simulator and no agent."""
