"""What all estimators share.

base            CodeEstimator, LabelEstimator, Quantizer: what they can do after a fit
course          the loop over the steps of a fit
calibration     curves from scores to probabilities
training_codes  codes of training rows, wherever the rows are
"""
