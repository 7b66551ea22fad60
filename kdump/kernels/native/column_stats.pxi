# One pass over columns for what checks ask of them.

def column_stats(column):
    """See kdump.kernels.portable.column_stats."""
    cdef Exports exports
    cdef Py_ssize_t length = len(column), at, first_fall = -1, falls = 0, repeats = 0
    cdef const int64_t *values
    cdef int64_t lowest, largest, before, value
    exports.count = 0
    if length == 0:
        raise ValueError("the column is empty")
    try:
        values = numbers_of(column, length, &exports)
        with nogil:
            lowest = largest = before = values[0]
            for at in range(1, length):
                value = values[at]
                if value <= before:
                    if value == before:
                        repeats += 1
                    else:
                        if falls == 0:
                            first_fall = at
                        falls += 1
                        if value < lowest:
                            lowest = value
                elif value > largest:
                    largest = value
                before = value
    finally:
        release(&exports)
    return lowest, largest, falls, first_fall, repeats


def differences(lower, upper):
    """See kdump.kernels.portable.column_stats."""
    cdef Exports exports
    cdef Py_ssize_t length = len(lower), at
    cdef const int64_t *lows
    cdef const int64_t *highs
    cdef int64_t lowest = INT64_MAX, largest = INT64_MIN, difference
    exports.count = 0
    if length == 0 or len(upper) != length:
        raise ValueError("the columns are empty, or not of the same length")
    try:
        lows = numbers_of(lower, length, &exports)
        highs = numbers_of(upper, length, &exports)
        with nogil:
            for at in range(length):
                if lows[at] < 0 and highs[at] > INT64_MAX + lows[at]:
                    difference = INT64_MAX
                elif lows[at] > 0 and highs[at] < INT64_MIN + lows[at]:
                    difference = INT64_MIN
                else:
                    difference = highs[at] - lows[at]
                if difference < lowest:
                    lowest = difference
                if difference > largest:
                    largest = difference
    finally:
        release(&exports)
    return lowest, largest
