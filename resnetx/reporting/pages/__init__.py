"""One HTML page of what was measured or computed, complete in itself, and its figures as files beside it."""
