"""The room of `envcheck gpus`."""
