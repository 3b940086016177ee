"""Run a plan so that an environment is the old one or the new one, whatever happens on the way."""
