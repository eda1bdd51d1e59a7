"""Compiled code that two or more matchers share. Imports nothing of ours but itself."""
