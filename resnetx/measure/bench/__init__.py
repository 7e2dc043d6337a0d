"""Collectives timed on real ranks, checked element by element, alone and beside computing."""
