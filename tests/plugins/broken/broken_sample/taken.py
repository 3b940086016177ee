"""Declares an id of envcheck."""

from envcheck.rules.catalogue import Entry

FINDINGS = (Entry("driver-too-old", "driver", "Mine.", "mine"),)
