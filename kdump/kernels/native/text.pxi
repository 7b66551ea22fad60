# Render batches and records as dump-log lines (portable.text).

cdef enum:
    FLUSH_SIZE = 1 << 18
    SMALL_BATCH = 1 << 17
    LINE_SIZE = 1024  # more than the numbers and names of any line take
    FIELDS_SIZE = 256  # more than the fields from a batch line's count to its delete horizon take when that is absent

ctypedef struct Out:
    uint8_t *p
    size_t length
    size_t capacity

cdef int reserve(Out *out, size_t size) except -1 nogil:
    """Make room for `size` more bytes."""
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


# A line is written through a cursor of its own, which stays in a register, up to where something of unknown length comes.


cdef inline uint8_t *put_number(uint8_t *to, int64_t number) noexcept nogil:
    return to + kdump_put_number(to, number)


cdef inline void advance(Out *out, uint8_t *to) noexcept nogil:
    """What was written up to `to` belongs to the output."""
    out.length = <size_t>(to - out.p)


cdef inline uint8_t *cursor(Out *out) noexcept nogil:
    return out.p + out.length


cdef int put_text(Out *out, const uint8_t *p, size_t n) except -1 nogil:
    """Put bytes as UTF-8, what is malformed replaced; grows the buffer."""
    cdef size_t at = 0, run, length
    cdef bint valid = False
    reserve(out, n)
    while at < n:
        run = kdump_copy_ascii(out.p + out.length, p + at, n - at)
        out.length += run
        at += run
        while at < n and p[at] >= 0x80:
            length = kdump_sequence(p + at, n - at, &valid)
            if valid:
                memcpy(out.p + out.length, p + at, length)
                out.length += length
            else:
                reserve(out, 3 + n - at)
                advance(out, put(cursor(out), b"\xef\xbf\xbd"))
            at += length
        reserve(out, n - at)
    return 0


cdef int put_out(Out *out, object write) except -1:
    """Hand over what is there."""
    cdef Py_ssize_t length = <Py_ssize_t>out.length
    if length:
        out.length = 0  # even if `write` fails
        with PyMemoryView_FromMemory(<char *>out.p, length, PyBUF_READ) as view:
            write(view)
    return 0


cdef inline uint8_t *put_timestamp_type(uint8_t *to, const Batches *b, int64_t row) noexcept nogil:
    if b.magic[row] == 0:
        return put(to, b" NoTimestampType: ")
    if b.attributes[row] & LOG_APPEND_TIME:
        return put(to, b" LogAppendTime: ")
    return put(to, b" CreateTime: ")


cdef inline uint8_t *put_bool(uint8_t *to, bint value) noexcept nogil:
    return put(to, b"true") if value else put(to, b"false")


cdef inline int64_t last_sequence(const Batches *b, int64_t row) noexcept nogil:
    if b.base_sequence[row] == -1:
        return -1
    return increment_sequence(
        <int32_t>b.base_sequence[row], <int32_t>(<uint32_t>(<uint64_t>b.last_offset[row] - <uint64_t>b.base_offset[row]))
    )


cdef inline uint8_t *put_offsets(uint8_t *to, const Batches *b, int64_t row) noexcept nogil:
    to = put_number(put(to, b"baseOffset: "), b.base_offset[row])
    return put_number(put(to, b" lastOffset: "), b.last_offset[row])


cdef inline uint8_t *put_batch_fields(uint8_t *to, const Batches *b, int64_t row) noexcept nogil:
    """Put the part of a batch line from its count to its delete horizon."""
    cdef int64_t attributes = b.attributes[row]
    to = put_number(put(to, b" count: "), b.count[row])
    to = put_number(put(to, b" baseSequence: "), b.base_sequence[row])
    to = put_number(put(to, b" lastSequence: "), last_sequence(b, row))
    to = put_number(put(to, b" producerId: "), b.producer_id[row])
    to = put_number(put(to, b" producerEpoch: "), b.producer_epoch[row])
    to = put_number(put(to, b" partitionLeaderEpoch: "), b.leader_epoch[row])
    to = put_bool(put(to, b" isTransactional: "), attributes & TRANSACTIONAL != 0)
    to = put_bool(put(to, b" isControl: "), attributes & CONTROL != 0)
    if attributes & DELETE_HORIZON:
        to = put_number(put(to, b" deleteHorizonMs: OptionalLong["), b.base_timestamp[row])
        return put(to, b"]")
    return put(to, b" deleteHorizonMs: OptionalLong.empty")


ctypedef struct Repeat:
    # the fields of the last batch line: the next batch mostly has the same ones
    uint8_t text[FIELDS_SIZE]
    size_t length
    int64_t count
    int64_t producer_id
    int64_t producer_epoch
    int64_t leader_epoch
    int64_t attributes


cdef inline uint8_t *repeat_batch_fields(uint8_t *to, const Batches *b, int64_t row, Repeat *last) noexcept nogil:
    """As put_batch_fields, which is only called where something changed."""
    cdef uint8_t *end
    if b.base_sequence[row] != -1 or b.attributes[row] & DELETE_HORIZON:
        return put_batch_fields(to, b, row)
    if (
        last.length
        and last.count == b.count[row]
        and last.producer_id == b.producer_id[row]
        and last.producer_epoch == b.producer_epoch[row]
        and last.leader_epoch == b.leader_epoch[row]
        and last.attributes == b.attributes[row]
    ):
        memcpy(to, last.text, FIELDS_SIZE)  # of a fixed size, since that is several times faster
        return to + last.length
    end = put_batch_fields(to, b, row)
    last.length = <size_t>(end - to)
    memcpy(last.text, to, last.length)
    last.count = b.count[row]
    last.producer_id = b.producer_id[row]
    last.producer_epoch = b.producer_epoch[row]
    last.leader_epoch = b.leader_epoch[row]
    last.attributes = b.attributes[row]
    return end


cdef int put_batch_line(Out *out, const Batches *b, int64_t row, Repeat *last, Fault *fault) except -1 nogil:
    cdef int64_t codec = b.attributes[row] & CODEC_MASK
    cdef uint8_t *to
    reserve(out, LINE_SIZE)
    to = cursor(out)
    if b.magic[row] >= 2:
        to = repeat_batch_fields(put_offsets(to, b, row), b, row, last)
    else:
        to = put(to, b"offset: ")
        to = put_number(to, b.last_offset[row])
        if b.magic[row] < 0:
            advance(out, to)
            return fail(fault, LEGACY_MAGIC, b.magic[row], 0)
    if codec > ZSTD:
        advance(out, to)
        return fail(fault, UNKNOWN_CODEC, codec, 0)
    to = put(to, b" position: ")
    to = put_number(to, b.position[row])
    to = put_timestamp_type(to, b, row)
    to = put_number(to, b.max_timestamp[row])
    to = put(to, b" size: ")
    to = put_number(to, b.size[row])
    to = put(to, b" magic: ")
    to = put_number(to, b.magic[row])
    to = put(to, b" compresscodec: ")
    if codec == NONE:
        to = put(to, b"none")
    elif codec == GZIP:
        to = put(to, b"gzip")
    elif codec == SNAPPY:
        to = put(to, b"snappy")
    elif codec == LZ4:
        to = put(to, b"lz4")
    else:
        to = put(to, b"zstd")
    to = put(to, b" crc: ")
    to = put_number(to, b.crc[row])
    to = put(to, b" isvalid: ")
    to = put_bool(to, b.valid[row] != 0)
    advance(out, put(to, b"\n"))
    return 0


cdef int put_header_names(Out *out, const Source *s, const Record *r) except -1 nogil:
    cdef int64_t at = r.headers_position, length = 0, position = 0, i
    for i in range(r.headers_count):
        if i:
            advance(out, put(cursor(out), b","))
        get_varint(s.data, &at, s.end, &length)
        put_text(out, s.data + at, <size_t>length)
        at += length
        get_sized(s.data, &at, s.end, &position, &length)
        reserve(out, LINE_SIZE)
    return 0


cdef inline int put_contents(Out *out, const Source *s, const Record *r, bint bar, bint all_bars) except -1 nogil:
    if r.key_length >= 0:
        advance(out, put(cursor(out), b"| key: ") if bar else put(cursor(out), b" key: "))
        put_text(out, s.data + r.key_position, <size_t>r.key_length)
        reserve(out, LINE_SIZE)
    if r.value_length >= 0:
        if bar and all_bars and r.key_length < 0:
            advance(out, put(cursor(out), b"|"))
        advance(out, put(cursor(out), b" payload: "))
        put_text(out, s.data + r.value_position, <size_t>r.value_length)
        reserve(out, LINE_SIZE)
    return 0


cdef class LogText(Exclusive):
    """A renderer for one log file; see portable.text.LogText."""

    cdef readonly object gaps
    cdef readonly int64_t last_offset
    cdef bint deep, print_data, skip_metadata
    cdef object control
    cdef bint hold, java
    cdef bint has_first
    cdef int64_t first
    cdef Out out
    cdef int64_t gap_numbers
    cdef Repeat last

    def __cinit__(self, bint deep, bint print_data, bint skip_metadata, control, *, bint hold=False, bint java=False):
        self.deep = deep
        self.print_data = print_data
        self.skip_metadata = skip_metadata
        self.control = control
        self.hold = hold
        self.java = java
        self.restart()

    def __dealloc__(self):
        free(self.out.p)

    @property
    def first_offset(self):
        """The first record's offset, or None."""
        return self.first if self.has_first else None

    @property
    def held(self):
        """Bytes of text that are held."""
        return self.out.length

    def restart(self, int64_t last_offset=-1):
        """Forget the text that is held, and all offsets but the last one."""
        self.check_unclaimed()
        self.out.length = 0
        self.gaps = array("q")
        self.gap_numbers = 0
        self.has_first = False
        self.last_offset = last_offset

    def flush(self, write):
        """Write the text that is held."""
        self.claim()
        try:
            put_out(&self.out, write)
        finally:
            self.unclaim()

    def render(self, block, int64_t first, int64_t stop, payloads, write):
        """Write the lines of the batches `first` to `stop` - 1; return the damage that ended them early, if any."""
        cdef Batches b
        cdef Fault fault
        cdef Source *sources = NULL
        cdef Exports exports
        cdef tuple kept = tuple(payloads)
        fault.code = fault.a = fault.b = 0
        exports.count = 0
        self.claim()
        try:
            bind_batches(block, &b, &exports)
            check_rows(&b, first, stop, self.deep)
            if self.deep:
                sources = bind_sources(&b, first, stop, kept)
                for row in range(first, stop):
                    if b.attributes[row] & CODEC_MASK and kept[row - first] is None:
                        sources[row - first].data = NULL
            try:
                with nogil:
                    self.rows(&b, first, stop, sources, &fault, write)
            except DamageError as damage:  # from `control`
                return damage.fault
            finally:
                if not self.hold:
                    put_out(&self.out, write)
        finally:
            self.unclaim()
            free(sources)
            release(&exports)
        return (fault.code, fault.a, fault.b) if fault.code else None

    cdef inline int flush_full(self, object write) except -1 nogil:
        if self.out.length >= FLUSH_SIZE and not self.hold:
            with gil:
                put_out(&self.out, write)
        return 0

    cdef int rows(
        self, const Batches *b, int64_t first, int64_t stop, const Source *sources, Fault *fault, object write
    ) except -1 nogil:
        cdef int64_t row
        cdef const Source *s
        for row in range(first, stop):
            if put_batch_line(&self.out, b, row, &self.last, fault):
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
        if not self.has_first:
            self.first = offset
            self.has_first = True
        if (self.java or self.last_offset != -1) and self.last_offset != add64(offset, -1):
            with gil:
                self.gaps.append(self.last_offset)
                self.gaps.append(offset)
            self.gap_numbers += 2
        self.last_offset = offset
        return 0

    cdef int batch(
        self, const Batches *b, int64_t row, const Source *s, Fault *fault, object write
    ) except -1 nogil:
        # Of a compressed batch with damage no record is shown. Of a small one what was written is taken back then,
        # which is faster than to look through all of them first; control records may have a fault of their own.
        cdef bint small = s.confined and s.end <= SMALL_BATCH and b.attributes[row] & CONTROL == 0
        cdef size_t length = self.out.length
        cdef int64_t last_offset = self.last_offset, gap_numbers = self.gap_numbers
        cdef bint has_first = self.has_first
        cdef int64_t at = s.start, index
        cdef Record r
        if check_batch(b, row, s, fault) if s.confined and not small else check_header(b, row, fault):
            return 0
        for index in range(b.count[row]):
            if next_record(b, row, s, index, &at, &r, fault):
                if small:
                    self.out.length = length
                    self.last_offset = last_offset
                    self.has_first = has_first
                    self.forget_gaps(gap_numbers)
                return 0
            self.record_line(b, row, s, &r, fault)
            if fault.code:
                return 0
            if not small:
                self.flush_full(write)
        return 0

    cdef int forget_gaps(self, int64_t numbers) except -1 nogil:
        """Drop all but the first so many numbers of `gaps`."""
        if self.gap_numbers > numbers:
            self.gap_numbers = numbers
            with gil:
                del self.gaps[numbers:]
        return 0

    cdef int record_line(
        self, const Batches *b, int64_t row, const Source *s, const Record *r, Fault *fault
    ) except -1 nogil:
        cdef Out *out = &self.out
        cdef uint8_t *to
        cdef bint control = b.attributes[row] & CONTROL != 0
        self.follow(r.offset)
        reserve(out, LINE_SIZE)
        if not self.skip_metadata:
            to = put(cursor(out), b"| offset: ")
            to = put_number(to, r.offset)
            to = put_timestamp_type(to, b, row)
            to = put_number(to, r.timestamp)
            to = put(to, b" keySize: ")
            to = put_number(to, r.key_length)
            to = put(to, b" valueSize: ")
            to = put_number(to, r.value_length)
            to = put(to, b" sequence: ")
            to = put_number(to, r.sequence)
            if r.headers_count:
                advance(out, put(to, b" headerKeys: ["))
                put_header_names(out, s, r)
                to = put(cursor(out), b"]")
            else:
                to = put(to, b" headerKeys: []")
            advance(out, to)
            if control:
                self.control_text(s, r, fault)
                if fault.code:
                    return 0
        if self.print_data and not control:
            put_contents(out, s, r, self.skip_metadata, self.java)
        advance(out, put(cursor(out), b"\n"))
        return 0

    cdef int control_text(self, const Source *s, const Record *r, Fault *fault) except -1 nogil:
        cdef int16_t version, number
        cdef const uint8_t *key = s.data + r.key_position
        cdef const uint8_t *value = s.data + r.value_position
        cdef uint8_t *to = cursor(&self.out)
        if r.key_length < 0:
            return fail(fault, CONTROL_NO_KEY, 0, 0)
        if r.key_length < CONTROL_KEY_LENGTH:
            return fail(fault, CONTROL_KEY_SIZE, r.key_length, 0)
        version = get16(key)
        if version < 0:
            return fail(fault, CONTROL_VERSION, version, 0)
        number = get16(key + CONTROL_TYPE_AT)
        if number == ABORT or number == COMMIT:
            if r.value_length < 0:
                return fail(fault, MARKER_NO_VALUE, 0, 0)
            if r.value_length < MARKER_VALUE_LENGTH:
                return fail(fault, MARKER_SIZE, r.value_length, 0)
            version = get16(value)
            if version < 0:
                return fail(fault, MARKER_VERSION, version, 0)
            if number == COMMIT:
                to = put(to, b" endTxnMarker: COMMIT coordinatorEpoch: ")
            else:
                to = put(to, b" endTxnMarker: ABORT coordinatorEpoch: ")
            advance(&self.out, put_number(to, get32(value + MARKER_EPOCH_AT)))
            return 0
        if number < 0 or number > KRAFT_VOTERS:
            to = put_number(put(to, b" controlType: UNKNOWN("), number)
            advance(&self.out, put(to, b")"))
            return 0
        with gil:
            self.kraft_text(number, value, r.value_length)
        return 0

    cdef int kraft_text(self, int number, const uint8_t *value, int64_t length) except -1:
        cdef bytes content = PyBytes_FromStringAndSize(<const char *>value, length) if length >= 0 else None
        cdef bytes text = self.control(number, content)
        reserve(&self.out, <size_t>PyBytes_Size(text) + LINE_SIZE)
        advance(&self.out, put(cursor(&self.out), b" "))
        advance(&self.out, put_bytes_at(cursor(&self.out), PyBytes_AsString(text), <size_t>PyBytes_Size(text)))
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
        cdef uint8_t *to
        self.follow(m.offset)
        reserve(out, LINE_SIZE)
        if not self.skip_metadata:
            if get_key(s, m, &r, fault) or get_value(s, m, &r, fault):
                return 0
            to = put(cursor(out), b"| offset: ")
            to = put_number(to, m.offset)
            to = put_timestamp_type(to, b, row)
            to = put_number(to, m.timestamp)
            to = put(to, b" keySize: ")
            to = put_number(to, r.key_length)
            to = put(to, b" valueSize: ")
            to = put_number(to, r.value_length)
            to = put(to, b" isValid: ")
            to = put_bool(to, message_is_valid(s, m))
            to = put(to, b" crc: ")
            to = put_number(to, <uint32_t>get32(s.data + m.position))
            advance(out, to if self.java else put(to, b"}"))
        if self.print_data:
            if get_contents(s, m, &r, fault):
                return 0
            put_contents(out, s, &r, self.skip_metadata, self.java)
        advance(out, put(cursor(out), b"\n"))
        return 0
