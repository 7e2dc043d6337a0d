"""What is generated: pages of `docs/` from what they describe, and from the table of settings `configs/`.

    python -m resnetx.cli.reference     # writes docs/settings.md, docs/records.md, ..., configs/ and keywords.py anew

A file is one string; `tests/test_docs.py` compares it with what is on disk.
"""
