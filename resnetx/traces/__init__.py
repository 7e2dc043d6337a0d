"""Traces of layer times: from run records or files of others, checked and summed up."""
