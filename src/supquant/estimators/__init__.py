"""What all estimators share.

estimator    CodeEstimator: the methods of a fitted codec, and files
labelled     LabelEstimator: codes of labelled vectors, and predictions
quantizer    Quantizer: codes that are sums of codewords
course       the loop over the steps of a fit
calibration  curves from scores to probabilities
remote_codes codes of training rows, wherever they are
"""
