"""One rank of a run: how it joins the others, what it measures, and what it knows of itself; see `main`."""
