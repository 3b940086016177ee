"""Judge a snapshot: importing this room registers every rule."""
