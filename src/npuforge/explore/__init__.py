"""The explore room: runs the stages on alternatives and says which is better."""
