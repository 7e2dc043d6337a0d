"""Studies as pages, figures and tables: how they scale, and what limits each point."""
