"""Indexes and models inside other tools: a small module for each, which imports that tool."""
