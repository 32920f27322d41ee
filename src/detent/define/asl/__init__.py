"""Amazon States Language, read once and written as a workflow file of `states:` that somebody keeps."""

from detent.define.asl.translation import Translated, translate_asl

__all__ = ["Translated", "translate_asl"]
