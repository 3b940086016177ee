"""Scripts that run in another interpreter, each printing one JSON object.

They import nothing of ours.
"""
