"""What papers and logs have published, beside what is predicted of the same: fits, errors, statements, scores."""
