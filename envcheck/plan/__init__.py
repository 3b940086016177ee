"""Choose releases for a machine and build the steps; nothing here changes anything."""
