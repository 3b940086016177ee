"""Tests of envcheck, one folder per room, with recorded machines, stand-ins and fault tests."""
