"""Report: training, encoding and searching with workers, on one machine or on a simulated cluster of two nodes.

run.py         all parts, one after the other
files.py       vectors of classes in Parquet files
fitting.py     one fit in a fresh process: seconds, memory of the driver, bytes of a pass, and faults
encoding.py    `encode_dataset`, killed at random moments
searching.py   `ShardedIndex` beside `CodeIndex`, and the time after which a lost shard answers again
"""
