"""Gate a project on what it requires of a machine: its [tool.envcheck] table against a report."""
