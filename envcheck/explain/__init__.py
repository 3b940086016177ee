"""Read logs: lines become events, events become evidence, evidence becomes findings."""
