"""What is matched: schema, conditions, clauses, events, and the columnar forms that indexes read."""
