"""The clocks of GPUs: locking one, keeping GPUs under load, and finding the highest that holds."""
