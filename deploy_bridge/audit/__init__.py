"""What was decided and why, so that nobody can change it unseen."""
