# Encode new records out of columns (portable.encode).

ctypedef struct NewRecords:
    int64_t *timestamp
    int64_t *key_position
    int64_t *key_length
    int64_t *value_position
    int64_t *value_length
    int64_t *headers_position
    int64_t *headers_length
    int64_t *headers_count
    const uint8_t *source
    int64_t available


def encode(columns, int64_t first, int64_t stop, int64_t limit, int64_t reserve):
    """Encode the rows from `first` on behind `reserve` bytes of zeros; return that, and the row that comes next."""
    cdef NewRecords r
    cdef Exports exports
    cdef int64_t row, size, body, total = reserve
    cdef uint8_t *to
    cdef int64_t length = columns.length
    if first < 0 or stop <= first or stop > length or reserve < 0:
        raise ValueError("rows outside the columns")
    exports.count = 0
    try:
        bind_new(columns, &r, length, &exports)
        for row in range(first, stop):
            check_new(&r, row)
            body = new_size(&r, row, row - first, first)
            size = body + varint_size(body)
            if row > first and total + size > limit:
                stop = row
                break
            total += size
        data = PyByteArray_FromStringAndSize(NULL, <Py_ssize_t>total)
        to = <uint8_t *>PyByteArray_AsString(data)
        memset(to, 0, <size_t>reserve)
        to += reserve
        for row in range(first, stop):
            to = put_new(to, &r, row, row - first, first)
    finally:
        release(&exports)
    return data, stop


cdef int bind_new(object columns, NewRecords *r, int64_t length, Exports *exports) except -1:
    cdef const Py_buffer *source = export(columns.source, PyBUF_SIMPLE, exports)
    r.timestamp = column(columns, "timestamp", length, exports)
    r.key_position = column(columns, "key_position", length, exports)
    r.key_length = column(columns, "key_length", length, exports)
    r.value_position = column(columns, "value_position", length, exports)
    r.value_length = column(columns, "value_length", length, exports)
    r.headers_position = column(columns, "headers_position", length, exports)
    r.headers_length = column(columns, "headers_length", length, exports)
    r.headers_count = column(columns, "headers_count", length, exports)
    r.source = <const uint8_t *>source.buf
    r.available = source.len
    return 0


cdef inline bint inside(const NewRecords *r, int64_t position, int64_t length) noexcept nogil:
    return length <= 0 or (0 <= position <= r.available and length <= r.available - position)


cdef inline int check_new(const NewRecords *r, int64_t row) except -1:
    """Refuse a row that leads out of the source."""
    if (
        inside(r, r.key_position[row], r.key_length[row])
        and inside(r, r.value_position[row], r.value_length[row])
        and inside(r, r.headers_position[row], r.headers_length[row])
        and r.headers_length[row] >= 0
        and r.headers_count[row] >= 0
    ):
        return 0
    raise ValueError(f"row {row} is not inside the source")


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return <uint64_t>value << 1 ^ <uint64_t>(value >> 63)


cdef inline int varint_size(int64_t value) noexcept nogil:
    cdef uint64_t rest = zigzag(value)
    cdef int size = 1
    while rest >= 0x80:
        rest >>= 7
        size += 1
    return size


cdef inline uint8_t *put_varint(uint8_t *to, int64_t value) noexcept nogil:
    cdef uint64_t rest = zigzag(value)
    while rest >= 0x80:
        to[0] = <uint8_t>(rest & 0x7F | 0x80)
        to += 1
        rest >>= 7
    to[0] = <uint8_t>rest
    return to + 1


cdef inline int64_t part_size(int64_t length) noexcept nogil:
    return 1 if length < 0 else varint_size(length) + length


cdef inline uint8_t *put_part(uint8_t *to, const uint8_t *source, int64_t length) noexcept nogil:
    if length < 0:
        to[0] = 1
        return to + 1
    to = put_varint(to, length)
    memcpy(to, source, <size_t>length)
    return to + length


cdef inline int64_t since(const NewRecords *r, int64_t row, int64_t first) noexcept nogil:
    return <int64_t>(<uint64_t>r.timestamp[row] - <uint64_t>r.timestamp[first])


cdef inline int64_t new_size(const NewRecords *r, int64_t row, int64_t delta, int64_t first) noexcept nogil:
    """Return how many bytes a record takes behind its length."""
    return (
        1
        + varint_size(since(r, row, first))
        + varint_size(delta)
        + part_size(r.key_length[row])
        + part_size(r.value_length[row])
        + varint_size(r.headers_count[row])
        + r.headers_length[row]
    )


cdef inline uint8_t *put_new(uint8_t *to, const NewRecords *r, int64_t row, int64_t delta, int64_t first) noexcept nogil:
    to = put_varint(to, new_size(r, row, delta, first))
    to[0] = 0
    to = put_varint(to + 1, since(r, row, first))
    to = put_varint(to, delta)
    to = put_part(to, r.source + r.key_position[row], r.key_length[row])
    to = put_part(to, r.source + r.value_position[row], r.value_length[row])
    to = put_varint(to, r.headers_count[row])
    memcpy(to, r.source + r.headers_position[row], <size_t>r.headers_length[row])
    return to + r.headers_length[row]
