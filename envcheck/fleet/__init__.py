"""Many machines: send the collector, save their snapshots, judge them here."""
