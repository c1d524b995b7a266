"""What a caller gives, checked: vectors, labels and parameters.

validation   vectors
labels       labels of all kinds, as one indicator matrix
unlabelled   which rows have a label
parameters   numbers, choices, seeds and threads
"""
