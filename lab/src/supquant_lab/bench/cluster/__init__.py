"""Report: training, encoding and searching with workers, on one machine or on a simulated cluster of two nodes.

run          all parts in order, the files that they read, and `encode_dataset`, killed at random moments
fitting      one fit in a fresh process: seconds, memory of the driver, bytes of a pass, and faults
searching    `ShardedIndex` compared with `CodeIndex`, and the time after which a lost shard answers again
"""
