"""What can be set: one table of all settings, the verbs that read them, and what is made of both.

`table` has a row for each setting; `verbs` an object for each verb. Files of `configs/` and `keywords` are written out.

A setting is a name with dots ("model.x") and a plain value; the command line and the library both end in such pairs.
"""
