"""The paper's comparison on all of the data: error, inconsistency and ratio against the number of samples."""
