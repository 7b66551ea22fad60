"""Write logs as a broker does: validate, assign offsets, index, roll, keep the state of producers and leader epochs."""
