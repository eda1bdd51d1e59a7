"""Elastic matching, the policy: how much may be skipped, what to skip, what it gains, and when to do it.

Nothing here reads a clock, a queue or an index: the matchers and the broker do, and ask.
"""
