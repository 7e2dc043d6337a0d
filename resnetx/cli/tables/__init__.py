"""What a person sees of each kind of result."""
