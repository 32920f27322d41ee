"""The Chinese catalogues: one module for each part of the surfaces."""
