"""Keras files to graphs."""
