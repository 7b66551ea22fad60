# One pass over a column for what checks ask of it.

def survey(array.array column):
    """See kdump.kernels.portable.survey."""
    cdef Py_ssize_t length = len(column)
    cdef Py_ssize_t at, first_fall = -1, falls = 0, repeats = 0
    cdef const int64_t *values
    cdef int64_t lowest, largest, before, value
    if column.itemsize != 8:
        raise ValueError("a column has 64-bit integers")
    if length == 0:
        raise ValueError("the column is empty")
    values = <const int64_t *>column.data.as_longlongs
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
    return lowest, largest, falls, first_fall, repeats
