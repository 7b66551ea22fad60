# Render batches and records as dump-log lines (portable.text).

cdef enum:
    FLUSH_SIZE = 1 << 18
    LINE_SIZE = 1024  # more than the numbers and names of any line take

ctypedef struct Out:
    uint8_t *p
    size_t length
    size_t capacity

cdef int reserve(Out *out, size_t size) except -1 nogil:
    """Room for `size` more bytes."""
    cdef size_t capacity
    cdef uint8_t *p
    if out.capacity - out.length >= size:
        return 0
    capacity = max(out.capacity * 2, out.length + size)
    p = <uint8_t *>realloc(out.p, capacity)
    if p == NULL:
        with gil:
            raise MemoryError
    out.p = p
    out.capacity = capacity
    return 0


cdef inline void put(Out *out, const char *text, size_t length) noexcept nogil:
    """Literal text, for which there is room."""
    memcpy(out.p + out.length, text, length)
    out.length += length


cdef inline void put_number(Out *out, int64_t number) noexcept nogil:
    out.length += kdump_put_number(out.p + out.length, number)


cdef inline bint continues(uint8_t byte) noexcept nogil:
    return byte & 0xC0 == 0x80


cdef int sequence_at(const uint8_t *p, size_t left, bint *valid) noexcept nogil:
    """How many bytes become one character, or one replacement (formats.java_utf8)."""
    cdef uint8_t lead = p[0], second
    valid[0] = False
    if lead < 0xC2 or lead > 0xF4 or left == 1:
        return 1
    second = p[1]
    if not continues(second):
        return 1
    if lead <= 0xDF:
        valid[0] = True
        return 2
    if lead <= 0xEF:
        if lead == 0xE0 and second < 0xA0:
            return 1
        if left == 2 or not continues(p[2]):
            return 2
        valid[0] = not (lead == 0xED and second >= 0xA0)
        return 3
    if (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second >= 0x90):
        return 1
    if left == 2 or not continues(p[2]):
        return 2
    if left == 3 or not continues(p[3]):
        return 3
    valid[0] = True
    return 4


cdef int put_text(Out *out, const uint8_t *p, size_t n) except -1 nogil:
    """Bytes as UTF-8, what is malformed replaced; grows the buffer."""
    cdef size_t at = 0, run
    cdef int length
    cdef bint valid = False
    reserve(out, n)
    while at < n:
        run = kdump_copy_ascii(out.p + out.length, p + at, n - at)
        out.length += run
        at += run
        while at < n and p[at] >= 0x80:
            length = sequence_at(p + at, n - at, &valid)
            if valid:
                memcpy(out.p + out.length, p + at, <size_t>length)
                out.length += <size_t>length
            else:
                reserve(out, 3 + n - at)
                put(out, b"\xef\xbf\xbd", 3)
            at += <size_t>length
        reserve(out, n - at)
    return 0


cdef inline void put_timestamp_type(Out *out, const Batches *b, int64_t row) noexcept nogil:
    if b.magic[row] == 0:
        put(out, b" NoTimestampType: ", 18)
    elif b.attributes[row] & LOG_APPEND_TIME:
        put(out, b" LogAppendTime: ", 16)
    else:
        put(out, b" CreateTime: ", 13)


cdef inline void put_bool(Out *out, bint value) noexcept nogil:
    if value:
        put(out, b"true", 4)
    else:
        put(out, b"false", 5)


cdef inline int64_t last_sequence(const Batches *b, int64_t row) noexcept nogil:
    if b.base_sequence[row] == -1:
        return -1
    return increment_sequence(
        <int32_t>b.base_sequence[row], <int32_t>(<uint32_t>(<uint64_t>b.last_offset[row] - <uint64_t>b.base_offset[row]))
    )


cdef void put_batch_fields(Out *out, const Batches *b, int64_t row) noexcept nogil:
    cdef int64_t attributes = b.attributes[row]
    put(out, b"baseOffset: ", 12)
    put_number(out, b.base_offset[row])
    put(out, b" lastOffset: ", 13)
    put_number(out, b.last_offset[row])
    put(out, b" count: ", 8)
    put_number(out, b.count[row])
    put(out, b" baseSequence: ", 15)
    put_number(out, b.base_sequence[row])
    put(out, b" lastSequence: ", 15)
    put_number(out, last_sequence(b, row))
    put(out, b" producerId: ", 13)
    put_number(out, b.producer_id[row])
    put(out, b" producerEpoch: ", 16)
    put_number(out, b.producer_epoch[row])
    put(out, b" partitionLeaderEpoch: ", 23)
    put_number(out, b.leader_epoch[row])
    put(out, b" isTransactional: ", 18)
    put_bool(out, attributes & TRANSACTIONAL != 0)
    put(out, b" isControl: ", 12)
    put_bool(out, attributes & CONTROL != 0)
    if attributes & DELETE_HORIZON:
        put(out, b" deleteHorizonMs: OptionalLong[", 31)
        put_number(out, b.base_timestamp[row])
        put(out, b"]", 1)
    else:
        put(out, b" deleteHorizonMs: OptionalLong.empty", 36)


cdef int put_batch_line(Out *out, const Batches *b, int64_t row, Fault *fault) except -1 nogil:
    cdef int64_t codec = b.attributes[row] & CODEC_MASK
    reserve(out, LINE_SIZE)
    if b.magic[row] >= 2:
        put_batch_fields(out, b, row)
    else:
        put(out, b"offset: ", 8)
        put_number(out, b.last_offset[row])
        if b.magic[row] < 0:
            return fail(fault, LEGACY_MAGIC, b.magic[row], 0)
    if codec > 4:
        return fail(fault, UNKNOWN_CODEC, codec, 0)
    put(out, b" position: ", 11)
    put_number(out, b.position[row])
    put_timestamp_type(out, b, row)
    put_number(out, b.max_timestamp[row])
    put(out, b" size: ", 7)
    put_number(out, b.size[row])
    put(out, b" magic: ", 8)
    put_number(out, b.magic[row])
    put(out, b" compresscodec: ", 16)
    if codec == 0:
        put(out, b"none", 4)
    elif codec == 1:
        put(out, b"gzip", 4)
    elif codec == 2:
        put(out, b"snappy", 6)
    elif codec == 3:
        put(out, b"lz4", 3)
    else:
        put(out, b"zstd", 4)
    put(out, b" crc: ", 6)
    put_number(out, b.crc[row])
    put(out, b" isvalid: ", 10)
    put_bool(out, b.valid[row] != 0)
    put(out, b"\n", 1)
    return 0


cdef int put_header_names(Out *out, const Source *s, const Record *r) except -1 nogil:
    cdef int64_t at = r.headers_position, length = 0, position = 0, i
    for i in range(r.headers_count):
        if i:
            put(out, b",", 1)
        get_varint(s.data, &at, s.end, &length)
        put_text(out, s.data + at, <size_t>length)
        at += length
        get_sized(s.data, &at, s.end, &position, &length)
        reserve(out, LINE_SIZE)
    return 0


cdef inline int put_contents(Out *out, const Source *s, const Record *r, bint bar) except -1 nogil:
    if r.key_length >= 0:
        if bar:
            put(out, b"| key: ", 7)
        else:
            put(out, b" key: ", 6)
        put_text(out, s.data + r.key_position, <size_t>r.key_length)
        reserve(out, LINE_SIZE)
    if r.value_length >= 0:
        put(out, b" payload: ", 10)
        put_text(out, s.data + r.value_position, <size_t>r.value_length)
        reserve(out, LINE_SIZE)
    return 0


cdef class LogText:
    """A renderer for one log file; see portable.text.LogText."""

    cdef readonly object gaps
    cdef bint deep, print_data, skip_metadata
    cdef object control
    cdef int64_t last_offset
    cdef Out out

    def __cinit__(self):
        self.out.p = NULL
        self.out.length = self.out.capacity = 0

    def __init__(self, bint deep, bint print_data, bint skip_metadata, control):
        self.gaps = array.array("q")
        self.deep = deep
        self.print_data = print_data
        self.skip_metadata = skip_metadata
        self.control = control
        self.last_offset = -1

    def __dealloc__(self):
        free(self.out.p)

    def render(self, block, int64_t first, int64_t stop, payloads, write):
        """Write the lines of the batches `first` to `stop` - 1; return the damage that ended them early, if any."""
        cdef Batches b
        cdef Fault fault
        cdef Source *sources = NULL
        cdef Py_buffer buffer
        fault.code = fault.a = fault.b = 0
        PyObject_GetBuffer(block.data, &buffer, PyBUF_SIMPLE)
        try:
            bind_batches(block, &b, &buffer)
            check_rows(&b, first, stop, self.deep)
            if self.deep:
                sources = bind_sources(&b, first, stop, payloads)
                for row in range(first, stop):
                    if b.attributes[row] & CODEC_MASK and payloads[row - first] is None:
                        sources[row - first].data = NULL
            try:
                with nogil:
                    self.rows(&b, first, stop, sources, &fault, write)
            except DamageError as damage:  # from `control`
                return damage.fault
            finally:
                self.flush(write)
        finally:
            free(sources)
            PyBuffer_Release(&buffer)
        return (fault.code, fault.a, fault.b) if fault.code else None

    cdef int flush(self, object write) except -1:
        cdef Py_ssize_t length = <Py_ssize_t>self.out.length
        if length:
            self.out.length = 0  # even if `write` fails
            with PyMemoryView_FromMemory(<char *>self.out.p, length, PyBUF_READ) as view:
                write(view)
        return 0

    cdef inline int flush_full(self, object write) except -1 nogil:
        if self.out.length >= FLUSH_SIZE:
            with gil:
                self.flush(write)
        return 0

    cdef int rows(
        self, const Batches *b, int64_t first, int64_t stop, const Source *sources, Fault *fault, object write
    ) except -1 nogil:
        cdef int64_t row
        cdef const Source *s
        for row in range(first, stop):
            if put_batch_line(&self.out, b, row, fault):
                return 0
            if self.deep:
                s = &sources[row - first]
                if s.data != NULL:
                    if b.magic[row] >= 2:
                        self.batch(b, row, s, fault, write)
                    else:
                        self.messages(b, row, s, fault, write)
                    if fault.code:
                        return 0
            self.flush_full(write)
        return 0

    cdef inline int follow(self, int64_t offset) except -1 nogil:
        if self.last_offset != -1 and self.last_offset != add64(offset, -1):
            with gil:
                self.gaps.append(self.last_offset)
                self.gaps.append(offset)
        self.last_offset = offset
        return 0

    cdef int batch(
        self, const Batches *b, int64_t row, const Source *s, Fault *fault, object write
    ) except -1 nogil:
        cdef int64_t at = s.start, index
        cdef Record r
        if check_batch(b, row, s, fault) if s.confined else check_header(b, row, fault):
            return 0
        for index in range(b.count[row]):
            if next_record(b, row, s, index, &at, &r, fault):
                return 0
            self.record_line(b, row, s, &r, fault)
            if fault.code:
                return 0
            self.flush_full(write)
        return 0

    cdef int record_line(
        self, const Batches *b, int64_t row, const Source *s, const Record *r, Fault *fault
    ) except -1 nogil:
        cdef Out *out = &self.out
        cdef bint control = b.attributes[row] & CONTROL != 0
        self.follow(r.offset)
        reserve(out, LINE_SIZE)
        if not self.skip_metadata:
            put(out, b"| offset: ", 10)
            put_number(out, r.offset)
            put_timestamp_type(out, b, row)
            put_number(out, r.timestamp)
            put(out, b" keySize: ", 10)
            put_number(out, r.key_length)
            put(out, b" valueSize: ", 12)
            put_number(out, r.value_length)
            put(out, b" sequence: ", 11)
            put_number(out, r.sequence)
            put(out, b" headerKeys: [", 14)
            put_header_names(out, s, r)
            put(out, b"]", 1)
            if control:
                self.control_text(s, r, fault)
                if fault.code:
                    return 0
        if self.print_data and not control:
            put_contents(out, s, r, self.skip_metadata)
        put(out, b"\n", 1)
        return 0

    cdef int control_text(self, const Source *s, const Record *r, Fault *fault) except -1 nogil:
        cdef int16_t version, number
        cdef const uint8_t *key = s.data + r.key_position
        cdef const uint8_t *value = s.data + r.value_position
        if r.key_length < 0:
            return fail(fault, CONTROL_NO_KEY, 0, 0)
        if r.key_length < 4:
            return fail(fault, CONTROL_KEY_SIZE, r.key_length, 0)
        version = get16(key)
        if version < 0:
            return fail(fault, CONTROL_VERSION, version, 0)
        number = get16(key + 2)
        if number == 0 or number == 1:
            if r.value_length < 0:
                return fail(fault, MARKER_NO_VALUE, 0, 0)
            if r.value_length < 6:
                return fail(fault, MARKER_SIZE, r.value_length, 0)
            version = get16(value)
            if version < 0:
                return fail(fault, MARKER_VERSION, version, 0)
            if number:
                put(&self.out, b" endTxnMarker: COMMIT coordinatorEpoch: ", 40)
            else:
                put(&self.out, b" endTxnMarker: ABORT coordinatorEpoch: ", 39)
            put_number(&self.out, get32(value + 2))
            return 0
        if number == 2:
            put(&self.out, b" controlType: LEADER_CHANGE(2)", 30)
            return 0
        if number < 0 or number > 6:
            put(&self.out, b" controlType: UNKNOWN(", 22)
            put_number(&self.out, number)
            put(&self.out, b")", 1)
            return 0
        with gil:
            self.kraft_text(number, value, r.value_length)
        return 0

    cdef int kraft_text(self, int number, const uint8_t *value, int64_t length) except -1:
        cdef bytes content = PyBytes_FromStringAndSize(<const char *>value, length) if length >= 0 else None
        cdef bytes text = self.control(number, content)
        reserve(&self.out, <size_t>PyBytes_GET_SIZE(text) + LINE_SIZE)
        put(&self.out, b" ", 1)
        put(&self.out, PyBytes_AS_STRING(text), <size_t>PyBytes_GET_SIZE(text))
        return 0

    cdef int messages(
        self, const Batches *b, int64_t row, const Source *s, Fault *fault, object write
    ) except -1 nogil:
        cdef Message m
        cdef Wrapper w
        if b.attributes[row] & CODEC_MASK == 0:
            own_message(b, row, s, &m)
            self.message_line(b, row, s, &m, fault)
            return 0
        if open_wrapper(b, row, s, &w, fault):
            return 0
        while not next_message(s, &w, &m, fault):
            self.message_line(b, row, s, &m, fault)
            if fault.code:
                return 0
            self.flush_full(write)
        return 0

    cdef int message_line(
        self, const Batches *b, int64_t row, const Source *s, const Message *m, Fault *fault
    ) except -1 nogil:
        cdef Out *out = &self.out
        cdef Record r
        self.follow(m.offset)
        reserve(out, LINE_SIZE)
        if not self.skip_metadata:
            if get_key(s, m, &r, fault) or get_value(s, m, &r, fault):
                return 0
            put(out, b"| offset: ", 10)
            put_number(out, m.offset)
            put_timestamp_type(out, b, row)
            put_number(out, m.timestamp)
            put(out, b" keySize: ", 10)
            put_number(out, r.key_length)
            put(out, b" valueSize: ", 12)
            put_number(out, r.value_length)
            put(out, b" isValid: ", 10)
            put_bool(out, message_is_valid(s, m))
            put(out, b" crc: ", 6)
            put_number(out, <uint32_t>get32(s.data + m.position))
            put(out, b"}", 1)
        if self.print_data:
            if get_contents(s, m, &r, fault):
                return 0
            put_contents(out, s, &r, self.skip_metadata)
        put(out, b"\n", 1)
        return 0
