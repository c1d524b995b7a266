"""Tests of work that processes and machines share. A package, so that its workers can end with its tests."""
