"""Report: what a user would take in place of supquant: classifiers with stored labels, codes of FAISS, small embeddings.

    maps ─┐
  stores ─┼─▶ methods ─▶ validation
clusters ─┘
"""
