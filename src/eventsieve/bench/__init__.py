"""The bench: build, check against brute force, time beside a frozen reference, record."""
