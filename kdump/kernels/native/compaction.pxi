# Records that stay, encoded again (portable.compaction).

ctypedef struct RewrittenRows:
    int64_t first
    uint8_t *kinds
    int64_t *ends
    int64_t *max_offset
    int64_t *max_timestamp
    int64_t first_horizon
    bint has_horizon


def encode_kept(block, records, int64_t start, int64_t stop, verdicts, payload, int64_t base_offset, base_timestamp):
    """Encode the records that stay, behind room for a batch's header; also return their base and largest timestamp."""
    cdef Batches b
    cdef Records r
    cdef Source s
    cdef Exports exports
    cdef const uint8_t[::1] kept = verdicts
    cdef int64_t at, row, body, total = HEADER_SIZE, base, largest, length = records.length
    cdef int64_t first = -1
    cdef uint8_t *to
    if start < 0 or stop <= start or stop > length or stop > kept.shape[0]:
        raise ValueError("records outside the block")
    exports.count = 0
    try:
        bind_batches(block, &b, &exports)
        bind_records(records, &r, &exports)
        if length > r.capacity:
            raise ValueError("the record block is shorter than it says")
        row = r.row[start]
        check_rows(&b, row, row + 1, True)
        source_of(&b, row, payload, &s)
        for at in range(start, stop):
            if not kept[at] & 1:
                continue
            if first < 0:
                first = at
                base = r.timestamp[at] if base_timestamp is None else base_timestamp
                largest = r.timestamp[at]
            largest = max(largest, r.timestamp[at])
            if (
                r.row[at] != row
                or not lies_inside(&b, &s, r.key_position[at], r.key_length[at])
                or not lies_inside(&b, &s, r.value_position[at], r.value_length[at])
            ):
                raise ValueError(f"record {at} is not inside the batch")
            body = kept_size(&b, &r, at, &s, base_offset, base)
            if body < 0:
                raise ValueError(f"the headers of record {at} are not inside the batch")
            total += varint_size(body) + body
        if first < 0:
            raise ValueError("no record stays")
        data = PyByteArray_FromStringAndSize(NULL, <Py_ssize_t>total)
        to = <uint8_t *>PyByteArray_AsString(data)
        memset(to, 0, HEADER_SIZE)
        to += HEADER_SIZE
        for at in range(first, stop):
            if kept[at] & 1:
                to = put_kept(to, &b, &r, at, &s, base_offset, base)
    finally:
        release(&exports)
    return data, base, largest


def rewrite(block, records, int64_t first, int64_t stop, verdicts, int64_t horizon):
    """Return what stays of rows, as far as that is to be told here; see portable.compaction."""
    cdef Batches b
    cdef Records r
    cdef Exports exports
    cdef const uint8_t[::1] kept = verdicts
    cdef RewrittenRows out
    cdef int64_t length = records.length
    cdef uint8_t *to
    cdef int64_t rows
    if length < 0 or length > kept.shape[0]:
        raise ValueError("not all records have a verdict")
    exports.count = 0
    try:
        bind_batches(block, &b, &exports)
        bind_records(records, &r, &exports)
        check_rows(&b, first, stop, True)
        if length > r.capacity:
            raise ValueError("the record block is shorter than it says")
        rows = stop - first
        kinds = PyByteArray_FromStringAndSize(NULL, <Py_ssize_t>rows)
        ends, offsets, times = (array("q", bytes(8 * rows)) for _ in range(3))
        out.first = first
        out.kinds = <uint8_t *>PyByteArray_AsString(kinds)
        out.ends = numbers_of(ends, rows, &exports)
        out.max_offset = numbers_of(offsets, rows, &exports)
        out.max_timestamp = numbers_of(times, rows, &exports)
        out.first_horizon = INT64_MAX
        out.has_horizon = False
        if measure_rows(&b, &r, length, first, stop, &kept[0] if length else NULL, horizon, &out):
            raise ValueError("records are not inside their batches, or not in order")
        data = PyByteArray_FromStringAndSize(NULL, <Py_ssize_t>(out.ends[stop - first - 1] if stop > first else 0))
        to = <uint8_t *>PyByteArray_AsString(data)
        with nogil:
            put_rows(to, &b, &r, length, first, stop, &kept[0] if length else NULL, horizon, &out)
    finally:
        release(&exports)
    return data, kinds, ends, offsets, times, out.first_horizon if out.has_horizon else None


cdef int measure_rows(
    const Batches *b, const Records *r, int64_t length, int64_t first, int64_t stop, const uint8_t *kept,
    int64_t horizon, RewrittenRows *out,
) noexcept nogil:
    """Tell of every row what becomes of it; 1 where records lead out of their batches."""
    cdef int64_t row, at = 0, start, staying, tombstones, size, end = 0
    cdef int64_t base, own_horizon
    cdef Source s
    for row in range(first, stop):
        start = at
        staying = tombstones = 0
        out.max_timestamp[row - first] = -1
        out.max_offset[row - first] = -1
        while at < length and r.row[at] == row:
            staying += kept[at] & 1
            tombstones += kept[at] == RETAINED_TOMBSTONE
            at += 1
        size = 0
        if b.magic[row] < 2 or b.attributes[row] & CONTROL or b.size[row] < HEADER_SIZE:
            out.kinds[row - first] = OTHER
        elif not staying:
            out.kinds[row - first] = GONE
        else:
            own_horizon = b.base_timestamp[row] if b.attributes[row] & DELETE_HORIZON else horizon
            if staying == at - start and (not tombstones or b.attributes[row] & DELETE_HORIZON):
                out.kinds[row - first] = COPIED
                size = b.size[row]
                out.max_offset[row - first] = b.last_offset[row]
                out.max_timestamp[row - first] = b.max_timestamp[row]
            elif b.attributes[row] & CODEC_MASK:
                out.kinds[row - first] = OTHER
            else:
                out.kinds[row - first] = REBUILT
                base = base_of(b, r, row, start, kept, tombstones, horizon)
                s.data = b.data
                s.start = s.end = 0
                s.confined = False
                size = rebuilt_size(b, r, row, start, at, kept, &s, base, out)
                if size < 0:
                    return 1
                if size > INT32_MAX:
                    out.kinds[row - first] = OTHER
                    out.max_timestamp[row - first] = out.max_offset[row - first] = -1
                    size = 0
            if tombstones and out.kinds[row - first] != OTHER:
                out.has_horizon = True
                out.first_horizon = min(out.first_horizon, own_horizon)
        end += size
        out.ends[row - first] = end
    return at < length


cdef inline int64_t base_of(
    const Batches *b, const Records *r, int64_t row, int64_t start, const uint8_t *kept, int64_t tombstones,
    int64_t horizon,
) noexcept nogil:
    """Return the base timestamp of a batch of which something stays: its delete horizon, or the first record's."""
    if b.attributes[row] & DELETE_HORIZON:
        return b.base_timestamp[row]
    if tombstones:
        return horizon
    while not kept[start] & 1:
        start += 1
    return r.timestamp[start]


cdef int64_t rebuilt_size(
    const Batches *b, const Records *r, int64_t row, int64_t start, int64_t stop, const uint8_t *kept,
    const Source *s, int64_t base, RewrittenRows *out,
) noexcept nogil:
    """Return how many bytes a batch takes of which not all stays; -1 where records lead out of the source."""
    cdef int64_t at, body, largest = INT64_MIN, size = HEADER_SIZE
    for at in range(start, stop):
        if not kept[at] & 1:
            continue
        if (
            not lies_inside(b, s, r.key_position[at], r.key_length[at])
            or not lies_inside(b, s, r.value_position[at], r.value_length[at])
        ):
            return -1
        body = kept_size(b, r, at, s, b.base_offset[row], base)
        if body < 0:
            return -1
        size += varint_size(body) + body
        largest = max(largest, r.timestamp[at])
        out.max_offset[row - out.first] = r.offset[at]
    out.max_timestamp[row - out.first] = b.max_timestamp[row] if b.attributes[row] & LOG_APPEND_TIME else largest
    return size


cdef void put_rows(
    uint8_t *to, const Batches *b, const Records *r, int64_t length, int64_t first, int64_t stop, const uint8_t *kept,
    int64_t horizon, const RewrittenRows *out,
) noexcept nogil:
    """Write the rows that stay as they are, and those that are written again."""
    cdef int64_t row, at = 0, start, staying, tombstones, base
    cdef Source s
    cdef uint8_t *batch
    s.data = b.data
    s.start = s.end = 0
    s.confined = False
    for row in range(first, stop):
        start = at
        staying = tombstones = 0
        while at < length and r.row[at] == row:
            staying += kept[at] & 1
            tombstones += kept[at] == RETAINED_TOMBSTONE
            at += 1
        if out.kinds[row - first] == COPIED:
            memcpy(to, b.data + b.position[row] - b.data_position, <size_t>b.size[row])
            to += b.size[row]
        elif out.kinds[row - first] == REBUILT:
            batch = to
            base = base_of(b, r, row, start, kept, tombstones, horizon)
            to += HEADER_SIZE
            for start in range(start, at):
                if kept[start] & 1:
                    to = put_kept(to, b, r, start, &s, b.base_offset[row], base)
            put_header(
                batch, b, row, to - batch, staying, base, tombstones, out.max_timestamp[row - first]
            )


cdef inline void put_header(
    uint8_t *to, const Batches *b, int64_t row, int64_t size, int64_t count, int64_t base_timestamp,
    int64_t tombstones, int64_t max_timestamp,
) noexcept nogil:
    """Write the header of a batch that is rebuilt, whose records are there."""
    cdef int64_t attributes = b.attributes[row] & (LOG_APPEND_TIME | TRANSACTIONAL)
    if tombstones or b.attributes[row] & DELETE_HORIZON:
        attributes |= DELETE_HORIZON
    put64(to, <uint64_t>b.base_offset[row])
    put32(to + LENGTH_AT, <uint32_t>(size - LOG_OVERHEAD))
    put32(to + LEADER_EPOCH_AT, <uint32_t>b.leader_epoch[row])
    to[MAGIC_AT] = 2
    put16(to + ATTRIBUTES_AT, <uint32_t>attributes)
    put32(to + LAST_OFFSET_DELTA_AT, <uint32_t>(b.last_offset[row] - b.base_offset[row]))
    put64(to + BASE_TIMESTAMP_AT, <uint64_t>base_timestamp)
    put64(to + MAX_TIMESTAMP_AT, <uint64_t>max_timestamp)
    put64(to + PRODUCER_ID_AT, <uint64_t>b.producer_id[row])
    put16(to + PRODUCER_EPOCH_AT, <uint32_t>b.producer_epoch[row])
    put32(to + BASE_SEQUENCE_AT, <uint32_t>b.base_sequence[row])
    put32(to + COUNT_AT, <uint32_t>count)
    put32(to + CRC_AT, kdump_crc32c(0, to + CRC_START, <size_t>(size - CRC_START)))


cdef inline void put16(uint8_t *to, uint32_t value) noexcept nogil:
    to[0] = <uint8_t>(value >> 8)
    to[1] = <uint8_t>value


cdef inline void put32(uint8_t *to, uint32_t value) noexcept nogil:
    put16(to, value >> 16)
    put16(to + 2, value)


cdef inline void put64(uint8_t *to, uint64_t value) noexcept nogil:
    put32(to, <uint32_t>(value >> 32))
    put32(to + 4, <uint32_t>value)


cdef int64_t kept_size(
    const Batches *b, const Records *r, int64_t at, const Source *s, int64_t base_offset, int64_t base_timestamp
) noexcept nogil:
    """Return how many bytes a record takes behind its length; -1 where its headers cannot be read."""
    cdef int64_t headers = headers_size(b, r, at, s)
    if headers < 0:
        return -1
    return (
        1
        + varint_size(add64(r.timestamp[at], <int64_t>(0 - <uint64_t>base_timestamp)))
        + varint_size(add64(r.offset[at], <int64_t>(0 - <uint64_t>base_offset)))
        + part_size(r.key_length[at])
        + part_size(r.value_length[at])
        + varint_size(r.headers_count[at])
        + headers
    )


cdef int64_t headers_size(const Batches *b, const Records *r, int64_t at, const Source *s) noexcept nogil:
    cdef int64_t position = r.headers_position[at], end = s.end if s.confined else b.available
    cdef int64_t total = 0, i, length, start
    if r.headers_count[at] <= 0:
        return 0
    if position < 0:
        return -1
    for i in range(r.headers_count[at]):
        if get_varint(s.data, &position, end, &length) or length < 0 or length > end - position:
            return -1
        position += length
        total += part_size(length)
        if get_sized(s.data, &position, end, &start, &length):
            return -1
        total += part_size(length)
    return total


cdef uint8_t *put_kept(
    uint8_t *to, const Batches *b, const Records *r, int64_t at, const Source *s, int64_t base_offset,
    int64_t base_timestamp,
) noexcept nogil:
    cdef int64_t position = r.headers_position[at], end = s.end if s.confined else b.available
    cdef int64_t i, length, start
    to = put_varint(to, kept_size(b, r, at, s, base_offset, base_timestamp))
    to[0] = 0
    to = put_varint(to + 1, add64(r.timestamp[at], <int64_t>(0 - <uint64_t>base_timestamp)))
    to = put_varint(to, add64(r.offset[at], <int64_t>(0 - <uint64_t>base_offset)))
    to = put_part(to, s.data + r.key_position[at], r.key_length[at])
    to = put_part(to, s.data + r.value_position[at], r.value_length[at])
    to = put_varint(to, r.headers_count[at])
    for i in range(r.headers_count[at]):
        get_varint(s.data, &position, end, &length)
        to = put_part(to, s.data + position, length)
        position += length
        get_sized(s.data, &position, end, &start, &length)
        to = put_part(to, s.data + start, length)
    return to
