"""One module for each verb: reads its words, calls one thing, shows what came of it."""
