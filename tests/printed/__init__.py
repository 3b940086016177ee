"""What the doctor prints for every recorded machine, and explain for every reported log, kept as text."""
