"""The demonstration: codes of two bytes for handwritten digits, in a table and a page of pictures."""
