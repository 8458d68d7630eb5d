"""Graph → TFLite file."""
