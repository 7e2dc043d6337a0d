"""Every figure: the only modules that know Altair."""
