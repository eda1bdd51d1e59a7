"""The embedded broker: receive, match, send, and give way under load within a stated bound.

EEM's broker (section 4.1) as a library: one process, a queue between every two parts, no Spark.
"""
