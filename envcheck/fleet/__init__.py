"""Many machines: send the collector, take snapshots, judge them here."""
