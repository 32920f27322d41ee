"""Measurements, as ratios to a floor measured in the same run: these machines are noisy."""
