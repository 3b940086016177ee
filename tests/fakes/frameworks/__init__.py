"""Stand-in frameworks, which misbehave as they are told; the tests install them in environments of their own."""
