"""The demonstration: two bytes a handwritten digit, in a table and a page of pictures."""
