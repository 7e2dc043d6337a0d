"""Two measurements side by side, or a prediction and the measurement that checks it."""
