"""What can be set: the settings of each verb, their defaults and choices in `configs/`, and the points they describe.

A setting is a name with dots ("model.x") and a plain value; the command line and the library both end in such pairs.
"""
