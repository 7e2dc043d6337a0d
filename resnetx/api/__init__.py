"""The library: one module for each verb, whose function of that name has settings in and records out.

`resnetx` itself offers these functions (`resnetx.predict(...)`), and the command line calls them. Where it needs more
(the folder of a record, the plan of a study), the module has `execute` or the like, of which the function is the plain
form. What is wrong with settings is a `ConfigError`, whose text is one sentence.
"""
