"""Stand-ins for an NVIDIA driver and a GPU host; nothing here is NVIDIA software."""
