"""The benchmark that ships: what the engine costs, as ratios to a plain INSERT+COMMIT loop on the same database."""
