# What all compiled kernels share: big-endian reads, blocks as C pointers.

ctypedef struct Fault:
    int code
    int64_t a
    int64_t b

cdef enum:
    MAX_EXPORTS = 32  # a block of batches, a block of records and some more

ctypedef struct Exports:
    # buffers in use: while one is, its owner can neither move nor resize it, whatever other threads do
    Py_buffer views[MAX_EXPORTS]
    int count

ctypedef struct Batches:
    int64_t *position
    int64_t *size
    int64_t *base_offset
    int64_t *last_offset
    int64_t *magic
    int64_t *attributes
    int64_t *crc
    int64_t *valid
    int64_t *base_timestamp
    int64_t *max_timestamp
    int64_t *producer_id
    int64_t *producer_epoch
    int64_t *base_sequence
    int64_t *count
    int64_t *leader_epoch
    int64_t capacity
    int64_t data_position
    int64_t available
    const uint8_t *data


cdef class Exclusive:
    """What serves one call at a time: a call writes to memory of the object, and moves it, while the GIL is released.

    A second call meanwhile, from another thread or from a function that the first one calls, would use that memory
    where it no longer is: it raises RuntimeError. The portable kernels have no such memory.
    """

    cdef bint is_claimed

    cdef int check_unclaimed(self) except -1:
        """Refuse to go on while a call is under way; enough for what lets no other code run before it is done."""
        if self.is_claimed:
            raise RuntimeError(f"a {type(self).__name__} is used by two threads at once, or by what it calls itself")
        return 0

    cdef int claim(self) except -1:
        """Keep other calls out until `unclaim`, which belongs into a `finally`, and this in front of its `try`."""
        self.check_unclaimed()
        self.is_claimed = True
        return 0

    cdef int unclaim(self) noexcept:
        self.is_claimed = False
        return 0


cdef inline int32_t get32(const uint8_t *p) noexcept nogil:
    return <int32_t>(<uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | <uint32_t>p[3])


cdef inline int64_t get64(const uint8_t *p) noexcept nogil:
    return <int64_t>(<uint64_t><uint32_t>get32(p) << 32 | <uint64_t><uint32_t>get32(p + 4))


cdef inline int16_t get16(const uint8_t *p) noexcept nogil:
    return <int16_t>(<uint16_t>p[0] << 8 | p[1])


cdef inline int64_t add64(int64_t a, int64_t b) noexcept nogil:
    return <int64_t>(<uint64_t>a + <uint64_t>b)


cdef inline int32_t increment_sequence(int32_t sequence, int32_t step) noexcept nogil:
    cdef int32_t room = <int32_t>(<uint32_t>0x7FFFFFFF - <uint32_t>step)
    if sequence > room:
        return <int32_t>(<uint32_t>step - (<uint32_t>0x7FFFFFFF - <uint32_t>sequence) - 1)
    return <int32_t>(<uint32_t>sequence + <uint32_t>step)


cdef inline int fail(Fault *fault, int code, int64_t a, int64_t b) noexcept nogil:
    fault.code = code
    fault.a = a
    fault.b = b
    return code


cdef inline int release(Exports *exports) noexcept:
    """Give back all buffers in use."""
    while exports.count:
        exports.count -= 1
        PyBuffer_Release(&exports.views[exports.count])
    return 0


cdef const Py_buffer *export(object owner, int flags, Exports *exports) except NULL:
    """Return the memory of `owner`, which keeps its place and size until `release`."""
    if exports.count == MAX_EXPORTS:
        raise ValueError("too many buffers at a time")
    PyObject_GetBuffer(owner, &exports.views[exports.count], flags)
    exports.count += 1
    return &exports.views[exports.count - 1]


cdef int64_t *numbers_of(object values, int64_t length, Exports *exports) except NULL:
    """Return 64-bit integers, once it is sure that there are `length` of them."""
    cdef const Py_buffer *view = export(values, PyBUF_FORMAT | PyBUF_WRITABLE, exports)
    if view.itemsize != 8 or view.format[0] != c'q' or view.len // 8 < length:
        raise ValueError(f"a column is not {length} 64-bit integers")
    return <int64_t *>view.buf


cdef inline int64_t *column(object block, str name, int64_t capacity, Exports *exports) except NULL:
    """Return the numbers of one column of a block that has room for `capacity` rows."""
    if capacity < 1:
        raise ValueError("a block must have room for a row")
    return numbers_of(getattr(block, name), capacity, exports)


cdef int bind_batches(object block, Batches *b, Exports *exports) except -1:
    """Point `b` at the block's columns and at its bytes."""
    cdef const Py_buffer *data = export(block.data, PyBUF_SIMPLE, exports)
    b.capacity = block.capacity
    b.position = column(block, "position", b.capacity, exports)
    b.size = column(block, "size", b.capacity, exports)
    b.base_offset = column(block, "base_offset", b.capacity, exports)
    b.last_offset = column(block, "last_offset", b.capacity, exports)
    b.magic = column(block, "magic", b.capacity, exports)
    b.attributes = column(block, "attributes", b.capacity, exports)
    b.crc = column(block, "crc", b.capacity, exports)
    b.valid = column(block, "valid", b.capacity, exports)
    b.base_timestamp = column(block, "base_timestamp", b.capacity, exports)
    b.max_timestamp = column(block, "max_timestamp", b.capacity, exports)
    b.producer_id = column(block, "producer_id", b.capacity, exports)
    b.producer_epoch = column(block, "producer_epoch", b.capacity, exports)
    b.base_sequence = column(block, "base_sequence", b.capacity, exports)
    b.count = column(block, "count", b.capacity, exports)
    b.leader_epoch = column(block, "leader_epoch", b.capacity, exports)
    b.data_position = block.data_position
    b.available = block.available
    if b.available < 0 or b.available > data.len:
        raise ValueError("the block's data is shorter than it says")
    b.data = <const uint8_t *>data.buf
    return 0


cdef int check_rows(const Batches *b, int64_t first, int64_t stop, bint content) except -1:
    """Refuse rows outside the block and, where content is to be read, rows that its data does not hold."""
    cdef int64_t row, start
    if first < 0 or stop < first or stop > b.capacity:
        raise ValueError("rows outside the block")
    if content:
        for row in range(first, stop):
            start = b.position[row] - b.data_position
            if start < 0 or b.size[row] < LOG_OVERHEAD + MIN_SIZE_FIELD or start > b.available - b.size[row]:
                raise ValueError(f"row {row} is not held by the block")
    return 0
