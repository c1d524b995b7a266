"""Report: what a GPU does in place of one core, and in place of torch as a competent user writes it.

run.py        the record: all sides, one after the other, in one process
encoding.py   items to codes
searching.py  a billion codes, one query and many
fitting.py    fits on all cores and on the GPU
torch_side.py the same searches in torch
"""
