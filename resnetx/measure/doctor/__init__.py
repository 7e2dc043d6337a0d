"""What `doctor` finds: the machine examined, libraries tried, and for each fault the command that fixes it."""
