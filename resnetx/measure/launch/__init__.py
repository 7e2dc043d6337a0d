"""How ranks are started, supervised and ended, and what their end means."""
