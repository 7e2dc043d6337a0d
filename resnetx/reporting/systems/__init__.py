"""Predicted systems side by side: who leads where, and which published statements hold."""
