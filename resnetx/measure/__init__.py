"""What happened: runs, their ranks, their machine, and how they are started and watched."""
