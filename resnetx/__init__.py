"""resnetx: how does deep-learning training scale on this GPU interconnect, and on that one?"""

__version__ = "0.1.0"
