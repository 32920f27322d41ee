"""The effect `pipeline`: stages that hand items on to each other."""

from detent.effects.pipeline.stage_run import pipeline

__all__ = ["pipeline"]
