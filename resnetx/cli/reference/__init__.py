"""The reference pages of `docs/`, generated from what they describe: settings, bounds, structs and schemas.

    python -m resnetx.cli.reference     # writes docs/settings.md and docs/records.md anew

A page is one string; `tests/test_docs.py` compares it with the file.
"""
