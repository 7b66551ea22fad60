# Decode records (portable.records).

ctypedef struct Record:
    int64_t offset
    int64_t timestamp
    int64_t sequence
    int64_t key_position
    int64_t key_length
    int64_t value_position
    int64_t value_length
    int64_t headers_position
    int64_t headers_count
    int64_t attributes  # of v2

ctypedef struct Source:
    # the bytes that hold a batch's records, and where these are in it
    const uint8_t *data
    int64_t start
    int64_t end
    bint confined  # a decompressed payload

ctypedef struct Message:
    int64_t offset
    int64_t timestamp
    int64_t position
    int64_t size
    int magic
    int attributes

ctypedef struct Records:
    int64_t *row
    int64_t *offset
    int64_t *timestamp
    int64_t *sequence
    int64_t *key_position
    int64_t *key_length
    int64_t *value_position
    int64_t *value_length
    int64_t *headers_position
    int64_t *headers_count
    int64_t *crc
    int64_t *valid
    int64_t capacity
    int64_t length
    int64_t flagged
    int64_t next_row
    int64_t next_index
    int64_t next_position

ctypedef struct Wrapper:
    # a walk over the messages inside a v0/v1 wrapper
    int64_t at
    int64_t shift
    bint append_time
    int64_t append_timestamp


cdef inline int get_varint(const uint8_t *p, int64_t *at, int64_t end, int64_t *value) noexcept nogil:
    """Read a zigzag varint: 0, PREMATURE_END at the buffer's end, or VARINT_LONG with the value reached."""
    return 0 if kdump_short_varint(p, at, end, value) else long_varint(p, at, end, value)


cdef int long_varint(const uint8_t *p, int64_t *at, int64_t end, int64_t *value) noexcept nogil:
    cdef uint32_t result = 0
    cdef int shift = 0
    cdef uint8_t byte
    while True:
        if at[0] >= end:
            return PREMATURE_END
        byte = p[at[0]]
        at[0] += 1
        if shift == 28 and byte & 0x80:
            value[0] = result | <uint32_t>(<int32_t><signed char>byte) << 28
            return VARINT_LONG
        result |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <int32_t>(result >> 1 ^ (0 - (result & 1)))
            return 0
        shift += 7


cdef inline int get_varlong(const uint8_t *p, int64_t *at, int64_t end, int64_t *value) noexcept nogil:
    return 0 if kdump_short_varint(p, at, end, value) else long_varlong(p, at, end, value)


cdef int long_varlong(const uint8_t *p, int64_t *at, int64_t end, int64_t *value) noexcept nogil:
    cdef uint64_t result = 0
    cdef int shift = 0
    cdef uint8_t byte
    while True:
        if at[0] >= end:
            return PREMATURE_END
        byte = p[at[0]]
        at[0] += 1
        if shift == 63 and byte & 0x80:
            return VARINT_LONG
        result |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <int64_t>(result >> 1 ^ (0 - (result & 1)))
            return 0
        shift += 7


cdef inline int get_sized(
    const uint8_t *p, int64_t *at, int64_t end, int64_t *position, int64_t *length
) noexcept nogil:
    """Read the bytes behind a varint length (below 0: null, -1)."""
    cdef int64_t size
    if get_varint(p, at, end, &size):
        return STRUCTURE
    position[0] = at[0]
    if size < 0:
        length[0] = -1
        return 0
    if size > end - at[0]:
        return STRUCTURE
    length[0] = size
    at[0] += size
    return 0


cdef int get_record(const Source *s, int64_t *at, Record *r, Fault *fault) noexcept nogil:
    """Read one record with its deltas still relative; `at` moves behind it."""
    cdef int64_t size, start, end = s.end, length, skipped, i
    cdef const uint8_t *p = s.data
    cdef int code = get_varint(p, at, end, &size)
    if code:
        return fail(fault, code, size if code == VARINT_LONG else 0, 0)
    start = at[0]
    if s.confined and size < 0:
        return fail(fault, NEGATIVE_SIZE, size, 0)
    if end - start < size:
        return fail(fault, RECORD_EOF if s.confined else RECORD_BEYOND, size, end - start)
    if s.confined:
        end = start + size
    if start >= end:
        return fail(fault, STRUCTURE, 0, 0)
    r.attributes = p[at[0]]
    at[0] += 1
    if get_varlong(p, at, end, &r.timestamp) or get_varint(p, at, end, &r.offset):
        return fail(fault, STRUCTURE, 0, 0)
    if get_sized(p, at, end, &r.key_position, &r.key_length):
        return fail(fault, STRUCTURE, 0, 0)
    if get_sized(p, at, end, &r.value_position, &r.value_length):
        return fail(fault, STRUCTURE, 0, 0)
    if get_varint(p, at, end, &r.headers_count):
        return fail(fault, STRUCTURE, 0, 0)
    if r.headers_count < 0:
        return fail(fault, HEADER_COUNT, r.headers_count, 0)
    if r.headers_count > end - at[0]:
        return fail(fault, HEADER_COUNT_BEYOND, r.headers_count, 0)
    r.headers_position = at[0]
    for i in range(r.headers_count):
        if get_varint(p, at, end, &length):
            return fail(fault, STRUCTURE, 0, 0)
        if length < 0:
            return fail(fault, HEADER_KEY_SIZE, length, 0)
        if length > end - at[0]:
            return fail(fault, STRUCTURE, 0, 0)
        at[0] += length
        if get_sized(p, at, end, &skipped, &length):
            return fail(fault, STRUCTURE, 0, 0)
    if at[0] - start != size:
        return fail(fault, RECORD_SIZE, size, at[0] - start)
    return 0


cdef inline int next_record(
    const Batches *b, int64_t row, const Source *s, int64_t index, int64_t *at, Record *r, Fault *fault
) noexcept nogil:
    """Read record number `index` of v2 batch `row`, which starts at `at`, with everything absolute."""
    cdef int32_t delta
    if get_record(s, at, r, fault):
        return fault.code
    if index + 1 == b.count[row] and at[0] < s.end:
        return fail(fault, RECORDS_REMAIN, 0, 0)
    delta = <int32_t>r.offset
    r.offset = add64(b.base_offset[row], delta)
    if b.attributes[row] & LOG_APPEND_TIME:
        r.timestamp = b.max_timestamp[row]
    else:
        r.timestamp = add64(b.base_timestamp[row], r.timestamp)
    r.sequence = increment_sequence(<int32_t>b.base_sequence[row], delta) if b.base_sequence[row] >= 0 else -1
    return 0


cdef inline int check_header(const Batches *b, int64_t row, Fault *fault) noexcept nogil:
    """Find what makes a v2 batch unreadable before its first record."""
    if b.size[row] < HEADER_SIZE:
        return fail(fault, OUT_OF_BOUNDS, HEADER_SIZE, b.size[row])
    if b.count[row] < 0:
        return fail(fault, NEGATIVE_COUNT, b.count[row], b.magic[row])
    return 0


cdef int check_batch(const Batches *b, int64_t row, const Source *s, Fault *fault) noexcept nogil:
    """Read all records of a v2 batch for the damage among them."""
    cdef int64_t at = s.start, index
    cdef Record r
    if check_header(b, row, fault):
        return fault.code
    for index in range(b.count[row]):
        if next_record(b, row, s, index, &at, &r, fault):
            return fault.code
    return 0


cdef int source_of(const Batches *b, int64_t row, object payload, Source *s) except -1:
    """Find where the records of batch `row` are: in its payload, or in the block's data."""
    cdef int64_t start = b.position[row] - b.data_position
    if payload is None and b.attributes[row] & CODEC_MASK:
        payload = b""
    if payload is None:
        s.data = b.data
        s.start = start + (HEADER_SIZE if b.magic[row] >= 2 else LOG_OVERHEAD)
        s.end = start + b.size[row]
        s.confined = False
        return 0
    s.data = <const uint8_t *>PyBytes_AsString(<bytes?>payload)
    s.start = 0
    s.end = PyBytes_Size(payload)
    s.confined = True
    return 0


# --- formats v0 and v1


cdef int get_length(const Source *s, const Message *m, int64_t at, int64_t *length, Fault *fault) noexcept nogil:
    """Read the length field `at` bytes into the message."""
    if at < 0 or at > m.size - LENGTH_SIZE:
        return fail(fault, OUT_OF_BOUNDS, at + LENGTH_SIZE, m.size)
    length[0] = get32(s.data + m.position + at)
    return 0


cdef inline int64_t key_size_at(const Message *m) noexcept nogil:
    return KEY_SIZE_AT_V0 if m.magic == 0 else KEY_SIZE_AT_V1


cdef inline int get_key(const Source *s, const Message *m, Record *r, Fault *fault) noexcept nogil:
    cdef int64_t at = key_size_at(m)
    r.key_position = m.position + at + LENGTH_SIZE
    return get_length(s, m, at, &r.key_length, fault)


cdef inline int get_value(const Source *s, const Message *m, Record *r, Fault *fault) noexcept nogil:
    """Needs the key's length."""
    cdef int64_t at = key_size_at(m) + LENGTH_SIZE + max(0, r.key_length)
    r.value_position = m.position + at + LENGTH_SIZE
    return get_length(s, m, at, &r.value_length, fault)


cdef inline int check_limit(const Message *m, int64_t position, int64_t length, Fault *fault) noexcept nogil:
    if length > m.position + m.size - position:
        return fail(fault, LEGACY_LIMIT, length, m.position + m.size - position)
    return 0


cdef int get_contents(const Source *s, const Message *m, Record *r, Fault *fault) noexcept nogil:
    """Read key and value of a message, in the order in which Kafka looks at them."""
    if get_key(s, m, r, fault) or check_limit(m, r.key_position, r.key_length, fault):
        return fault.code
    if get_value(s, m, r, fault) or check_limit(m, r.value_position, r.value_length, fault):
        return fault.code
    return 0


cdef inline bint message_is_valid(const Source *s, const Message *m) noexcept nogil:
    cdef const uint8_t *p = s.data + m.position
    return kdump_crc32(0, p + CRC_SIZE, <size_t>(m.size - CRC_SIZE)) == <uint32_t>get32(p)


cdef int inner_message(const Source *s, Wrapper *w, Message *m, Fault *fault) noexcept nogil:
    """Read the next message inside a wrapper with its offset as stored: 0, a fault, or -1 at the end."""
    cdef const uint8_t *p = s.data + w.at
    cdef int32_t size
    if s.end - w.at < LOG_OVERHEAD:
        return -1
    size = get32(p + LENGTH_AT)
    if size < MIN_SIZE_FIELD:
        return fail(fault, INNER_SIZE, size, 0)
    m.position = w.at + LOG_OVERHEAD
    if size > s.end - m.position:
        return -1
    m.size = size
    m.offset = get64(p)
    m.magic = <signed char>p[MAGIC_AT]
    m.attributes = p[MESSAGE_ATTRIBUTES_AT]
    m.timestamp = get64(p + MESSAGE_TIMESTAMP_AT) if m.magic != 0 else -1
    if m.magic == 1 and w.append_time:
        m.timestamp = w.append_timestamp
    w.at = m.position + size
    return 0


cdef int open_wrapper(const Batches *b, int64_t row, const Source *s, Wrapper *w, Fault *fault) noexcept nogil:
    """Look through a wrapper's messages for their offsets' shift, and get ready to read them."""
    cdef Message m
    cdef int64_t last = 0
    cdef bint found = False
    cdef int code
    if b.magic[row] < 0:
        return fail(fault, WRAPPER_MAGIC, b.magic[row], 0)
    if b.attributes[row] & CODEC_MASK == ZSTD:
        return fail(fault, WRAPPER_CODEC, b.magic[row], 0)
    w.at = 0
    w.shift = 0
    w.append_time = b.magic[row] > 0 and b.attributes[row] & LOG_APPEND_TIME != 0
    w.append_timestamp = b.max_timestamp[row]
    while True:
        code = inner_message(s, w, &m, fault)
        if code > 0:
            return code
        if code < 0:
            break
        last = m.offset
        found = True
    if not found:
        return fail(fault, WRAPPER_EMPTY, 0, 0)
    w.at = 0
    if b.magic[row] == 1 and b.last_offset[row] != 0:
        if b.last_offset[row] < last:
            return fail(fault, WRAPPER_OFFSET, b.last_offset[row], last)
        w.shift = <int64_t>(<uint64_t>b.last_offset[row] - <uint64_t>last)
    return 0


cdef inline int next_message(const Source *s, Wrapper *w, Message *m, Fault *fault) noexcept nogil:
    """Read the next message of an opened wrapper with its absolute offset: 0, a fault, or -1 at the end."""
    cdef int code = inner_message(s, w, m, fault)
    if code:
        return code
    if m.attributes & CODEC_MASK > ZSTD:
        return fail(fault, UNKNOWN_CODEC, m.attributes & CODEC_MASK, 0)
    if m.attributes & CODEC_MASK:
        return fail(fault, INNER_COMPRESSED, 0, 0)
    m.offset = add64(m.offset, w.shift)
    return 0


cdef inline void own_message(const Batches *b, int64_t row, const Source *s, Message *m) noexcept nogil:
    """Give the message that an uncompressed v0/v1 entry is."""
    m.offset = b.last_offset[row]
    m.timestamp = b.max_timestamp[row]
    m.position = s.start
    m.size = s.end - s.start
    m.magic = <int>b.magic[row]
    m.attributes = <int>b.attributes[row]


# --- the functions that Python sees


def decode(block, records, int64_t first, int64_t stop, payloads):
    """Fill `records` with the records of the batches before row `stop`; return whether to call again."""
    cdef Batches b
    cdef Records r
    cdef Fault fault
    cdef Source *sources
    cdef Exports exports
    cdef int result
    cdef tuple kept = tuple(payloads)
    fault.code = fault.a = fault.b = 0
    exports.count = 0
    sources = NULL
    try:
        bind_batches(block, &b, &exports)
        bind_records(records, &r, &exports)
        check_rows(&b, first, stop, True)
        if r.next_row < first or r.next_index < 0 or r.next_position < 0:
            raise ValueError("the cursor is outside the rows")
        sources = bind_sources(&b, first, stop, kept)
        with nogil:
            result = decode_rows(&b, &r, first, stop, sources, &fault)
    finally:
        free(sources)
        release(&exports)
    records.length = r.length
    records.flagged = r.flagged
    records.next_row = r.next_row
    records.next_index = r.next_index
    records.next_position = r.next_position
    records.fault = (fault.code, fault.a, fault.b) if fault.code else None
    return result == 1


def check(block, int64_t row, payload):
    """Return the damage that reading all records of batch `row` meets first, or None."""
    cdef Batches b
    cdef Source s
    cdef Wrapper w
    cdef Message m
    cdef Record r
    cdef Fault fault
    cdef Exports exports
    cdef int code
    fault.code = fault.a = fault.b = 0
    exports.count = 0
    try:
        bind_batches(block, &b, &exports)
        check_rows(&b, row, row + 1, True)
        source_of(&b, row, payload, &s)
        if b.magic[row] >= 2:
            check_batch(&b, row, &s, &fault)
        elif b.attributes[row] & CODEC_MASK > ZSTD:
            fail(&fault, UNKNOWN_CODEC, b.attributes[row] & CODEC_MASK, 0)
        elif not b.attributes[row] & CODEC_MASK:
            own_message(&b, row, &s, &m)
            get_contents(&s, &m, &r, &fault)
        elif not open_wrapper(&b, row, &s, &w, &fault):
            while not next_message(&s, &w, &m, &fault) and not get_contents(&s, &m, &r, &fault):
                pass
    finally:
        release(&exports)
    return (fault.code, fault.a, fault.b) if fault.code else None


cdef int bind_records(object records, Records *r, Exports *exports) except -1:
    r.capacity = records.capacity
    r.row = column(records, "row", r.capacity, exports)
    r.offset = column(records, "offset", r.capacity, exports)
    r.timestamp = column(records, "timestamp", r.capacity, exports)
    r.sequence = column(records, "sequence", r.capacity, exports)
    r.key_position = column(records, "key_position", r.capacity, exports)
    r.key_length = column(records, "key_length", r.capacity, exports)
    r.value_position = column(records, "value_position", r.capacity, exports)
    r.value_length = column(records, "value_length", r.capacity, exports)
    r.headers_position = column(records, "headers_position", r.capacity, exports)
    r.headers_count = column(records, "headers_count", r.capacity, exports)
    r.crc = column(records, "crc", r.capacity, exports)
    r.valid = column(records, "valid", r.capacity, exports)
    r.length = 0
    r.flagged = -1
    r.next_row = records.next_row
    r.next_index = records.next_index
    r.next_position = records.next_position
    return 0


cdef Source *bind_sources(const Batches *b, int64_t first, int64_t stop, tuple payloads) except NULL:
    """Return the sources of the rows, as an array that the caller frees. His tuple keeps the payloads they are in."""
    cdef int64_t row
    if len(payloads) < stop - first:
        raise IndexError("there are fewer payloads than rows")
    cdef Source *sources = <Source *>malloc(<size_t>(stop - first + 1) * sizeof(Source))
    if sources == NULL:
        raise MemoryError
    try:
        for row in range(first, stop):
            source_of(b, row, payloads[row - first], &sources[row - first])
    except BaseException:
        free(sources)
        raise
    return sources


cdef int decode_rows(
    const Batches *b, Records *r, int64_t first, int64_t stop, const Source *sources, Fault *fault
) noexcept nogil:
    """0: done or damage; 1: the record block is full."""
    cdef int code
    while r.next_row < stop:
        if b.magic[r.next_row] >= 2:
            code = decode_batch(b, r, &sources[r.next_row - first], fault)
        else:
            code = decode_messages(b, r, &sources[r.next_row - first], fault)
        if code < 0:
            return 1
        if code:
            return 0
        r.next_row += 1
        r.next_index = 0
        r.next_position = 0
    return 0


cdef inline void put_record(Records *r, const Record *record, int64_t crc, int64_t valid) noexcept nogil:
    cdef int64_t at = r.length
    r.row[at] = r.next_row
    r.offset[at] = record.offset
    r.timestamp[at] = record.timestamp
    r.sequence[at] = record.sequence
    r.key_position[at] = record.key_position
    r.key_length[at] = record.key_length
    r.value_position[at] = record.value_position
    r.value_length[at] = record.value_length
    r.headers_position[at] = record.headers_position
    r.headers_count[at] = record.headers_count
    r.crc[at] = crc
    r.valid[at] = valid
    r.length += 1
    r.next_index += 1


cdef int decode_batch(const Batches *b, Records *r, const Source *s, Fault *fault) noexcept nogil:
    """0, a fault, or -1 when the record block is full before the batch's end."""
    cdef int64_t at = r.next_position if r.next_position else s.start
    cdef int64_t count = b.count[r.next_row]
    cdef Record record
    if check_header(b, r.next_row, fault):
        return fault.code
    while r.next_index < count:
        if next_record(b, r.next_row, s, r.next_index, &at, &record, fault):
            return fault.code
        if r.length == r.capacity:
            return -1
        if record.attributes and r.flagged < 0:
            r.flagged = r.length
        put_record(r, &record, 0, 1)
        r.next_position = at
    return 0


cdef int decode_messages(const Batches *b, Records *r, const Source *s, Fault *fault) noexcept nogil:
    cdef Message m
    cdef Wrapper w
    cdef int64_t index = 0
    cdef int code
    if b.attributes[r.next_row] & CODEC_MASK > ZSTD:
        return fail(fault, UNKNOWN_CODEC, b.attributes[r.next_row] & CODEC_MASK, 0)
    if b.attributes[r.next_row] & CODEC_MASK == 0:
        own_message(b, r.next_row, s, &m)
        return put_message(r, s, &m, fault)
    if open_wrapper(b, r.next_row, s, &w, fault):
        return fault.code
    while True:
        code = next_message(s, &w, &m, fault)
        if code:
            return 0 if code < 0 else code
        if index >= r.next_index:
            code = put_message(r, s, &m, fault)
            if code:
                return code
        index += 1


cdef int put_message(Records *r, const Source *s, const Message *m, Fault *fault) noexcept nogil:
    cdef Record record
    if r.length == r.capacity:
        return -1
    if get_contents(s, m, &record, fault):
        return fault.code
    record.offset = m.offset
    record.timestamp = m.timestamp
    record.sequence = -1
    record.key_length = max(record.key_length, <int64_t>-1)
    record.value_length = max(record.value_length, <int64_t>-1)
    record.headers_position = record.headers_count = 0
    put_record(r, &record, <uint32_t>get32(s.data + m.position), message_is_valid(s, m))
    return 0
