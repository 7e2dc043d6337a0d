"""Files of other programs: profiles, timelines and tables, each read or written in one module."""
