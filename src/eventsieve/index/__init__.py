"""What `build` returns: one matcher, and around it ids, alternatives, residual checks, explanations and snapshots."""
