# What all compiled kernels share: constants, big-endian reads, blocks as C pointers.

cdef enum:
    BLOCK_FULL = 0
    NEED_BYTES = 1
    END = 2
    PARTIAL = 3
    UNDERSIZED = 4
    SHORT_HEADER = 5
    UNKNOWN_CODEC = 10
    LEGACY_MAGIC = 11
    NEGATIVE_COUNT = 12
    PREMATURE_END = 13
    RECORDS_REMAIN = 14
    RECORD_BEYOND = 15
    RECORD_SIZE = 16
    STRUCTURE = 17
    HEADER_COUNT = 18
    HEADER_COUNT_BEYOND = 19
    HEADER_KEY_SIZE = 20
    RECORD_EOF = 21
    VARINT_LONG = 22
    NEGATIVE_SIZE = 23
    OUT_OF_BOUNDS = 30
    LEGACY_LIMIT = 31
    WRAPPER_MAGIC = 32
    WRAPPER_CODEC = 33
    WRAPPER_NULL = 34
    WRAPPER_EMPTY = 35
    WRAPPER_OFFSET = 36
    INNER_SIZE = 37
    INNER_COMPRESSED = 38
    CONTROL_NO_KEY = 40
    CONTROL_KEY_SIZE = 41
    CONTROL_VERSION = 42
    MARKER_NO_VALUE = 43
    MARKER_SIZE = 44
    MARKER_VERSION = 45

FAULT_NUMBERS = {
    "BLOCK_FULL": BLOCK_FULL, "NEED_BYTES": NEED_BYTES, "END": END, "PARTIAL": PARTIAL, "UNDERSIZED": UNDERSIZED,
    "SHORT_HEADER": SHORT_HEADER, "UNKNOWN_CODEC": UNKNOWN_CODEC, "LEGACY_MAGIC": LEGACY_MAGIC,
    "NEGATIVE_COUNT": NEGATIVE_COUNT, "PREMATURE_END": PREMATURE_END, "RECORDS_REMAIN": RECORDS_REMAIN,
    "RECORD_BEYOND": RECORD_BEYOND, "RECORD_SIZE": RECORD_SIZE, "STRUCTURE": STRUCTURE, "HEADER_COUNT": HEADER_COUNT,
    "HEADER_COUNT_BEYOND": HEADER_COUNT_BEYOND, "HEADER_KEY_SIZE": HEADER_KEY_SIZE, "RECORD_EOF": RECORD_EOF,
    "VARINT_LONG": VARINT_LONG, "NEGATIVE_SIZE": NEGATIVE_SIZE, "OUT_OF_BOUNDS": OUT_OF_BOUNDS,
    "LEGACY_LIMIT": LEGACY_LIMIT, "WRAPPER_MAGIC": WRAPPER_MAGIC, "WRAPPER_CODEC": WRAPPER_CODEC,
    "WRAPPER_NULL": WRAPPER_NULL, "WRAPPER_EMPTY": WRAPPER_EMPTY, "WRAPPER_OFFSET": WRAPPER_OFFSET,
    "INNER_SIZE": INNER_SIZE, "INNER_COMPRESSED": INNER_COMPRESSED, "CONTROL_NO_KEY": CONTROL_NO_KEY,
    "CONTROL_KEY_SIZE": CONTROL_KEY_SIZE, "CONTROL_VERSION": CONTROL_VERSION, "MARKER_NO_VALUE": MARKER_NO_VALUE,
    "MARKER_SIZE": MARKER_SIZE, "MARKER_VERSION": MARKER_VERSION,
}

cdef enum:
    CODEC_MASK = 0x07
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    DELETE_HORIZON = 0x40
    LOG_OVERHEAD = 12
    FRAME_SIZE = 17
    HEADER_SIZE = 61
    CRC_START = 21
    MIN_SIZE_FIELD = 14

ctypedef struct Fault:
    int code
    int64_t a
    int64_t b

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


cdef int64_t *column(object block, str name, int64_t capacity) except NULL:
    """The numbers of one column, once it is sure that there are `capacity` of them."""
    cdef array.array values = getattr(block, name)
    if capacity < 1:
        raise ValueError("a block must have room for a row")
    if values.ob_descr.typecode != c'q' or len(values) < capacity:
        raise ValueError(f"column {name} is not {capacity} 64-bit integers")
    return <int64_t *>values.data.as_longlongs


cdef int bind_batches(object block, Batches *b, const Py_buffer *buffer) except -1:
    """Point `b` at the block's columns and at its bytes."""
    b.capacity = block.capacity
    b.position = column(block, "position", b.capacity)
    b.size = column(block, "size", b.capacity)
    b.base_offset = column(block, "base_offset", b.capacity)
    b.last_offset = column(block, "last_offset", b.capacity)
    b.magic = column(block, "magic", b.capacity)
    b.attributes = column(block, "attributes", b.capacity)
    b.crc = column(block, "crc", b.capacity)
    b.valid = column(block, "valid", b.capacity)
    b.base_timestamp = column(block, "base_timestamp", b.capacity)
    b.max_timestamp = column(block, "max_timestamp", b.capacity)
    b.producer_id = column(block, "producer_id", b.capacity)
    b.producer_epoch = column(block, "producer_epoch", b.capacity)
    b.base_sequence = column(block, "base_sequence", b.capacity)
    b.count = column(block, "count", b.capacity)
    b.leader_epoch = column(block, "leader_epoch", b.capacity)
    b.data_position = block.data_position
    b.available = block.available
    if b.available < 0 or b.available > buffer.len:
        raise ValueError("the block's data is shorter than it says")
    b.data = <const uint8_t *>buffer.buf
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
