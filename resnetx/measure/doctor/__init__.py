"""`resnetx doctor`: examines the machine, tries the libraries, and has for each fault the command that fixes it."""
