"""Makes a bench of tests a second long, not ten: how computing suffers is measured less often, in the same way."""

from resnetx.measure.bench import interference

interference.CROWD_S = 0.02
interference.CROWD_REPEATS = 2
interference.REPEATS = 2
