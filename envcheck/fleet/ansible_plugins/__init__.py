"""Plugins that run inside Ansible."""
