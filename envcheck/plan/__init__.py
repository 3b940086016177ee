"""Choose releases for a machine and build the steps that bring them; nothing here changes anything."""
