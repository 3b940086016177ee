"""Scripts that run in another interpreter, each printing one JSON object; they import nothing of ours."""
