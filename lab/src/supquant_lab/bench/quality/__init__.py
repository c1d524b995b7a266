"""Report: the quality of the default model on many data sets, in one command, and what changed since an earlier run."""
