"""What examples/argmax.cu must compute."""

import numpy as np


def reference(case, inputs):
    x = inputs["x"]
    column = x.argmax(axis=1)
    largest = np.take_along_axis(x, column[:, None], axis=1)[:, 0]
    return {"largest": 0.1 * largest, "column": column}
