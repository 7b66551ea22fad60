# Walk a buffer entry by entry, and find the next entry behind damage (portable.walk, portable.resync).


def walk(block, int64_t position, int64_t end, int64_t file_end, int64_t row=0):
    """Fill `block`, from `row` on, with the entries from byte `position` on; return why it stopped."""
    cdef Batches b
    cdef Exports exports
    cdef int64_t length = row, needed = 0, bad_size = 0
    cdef int status
    if position < block.data_position:
        raise ValueError("the walk would start before the block's data")
    exports.count = 0
    try:
        bind_batches(block, &b, &exports)
        if row < 0 or row >= b.capacity:
            raise ValueError("the row is not inside the block")
        with nogil:
            status = walk_rows(&b, &position, end, file_end, &length, &needed, &bad_size)
    finally:
        release(&exports)
    block.length = length
    block.packed = rows_with(&b, length, CODEC_MASK)
    block.controls = rows_with(&b, length, CONTROL)
    block.next_position = position
    block.status = status
    if status == NEED_BYTES:
        block.needed = needed
    elif status == UNDERSIZED:
        block.bad_size = bad_size
    return status


cdef int64_t rows_with(const Batches *b, int64_t length, int64_t mask) noexcept nogil:
    """Count the rows whose attributes have one of these bits."""
    cdef int64_t row, count = 0
    for row in range(length):
        count += b.attributes[row] & mask != 0
    return count


cdef int walk_rows(
    const Batches *b, int64_t *position, int64_t end, int64_t file_end, int64_t *length, int64_t *needed,
    int64_t *bad_size,
) noexcept nogil:
    cdef int64_t at, total, need
    cdef int32_t size
    cdef const uint8_t *p
    while True:
        if position[0] >= end - FRAME_SIZE:
            return END
        at = position[0] - b.data_position
        if at > b.available - FRAME_SIZE:
            needed[0] = FRAME_SIZE
            return NEED_BYTES
        p = b.data + at
        size = get32(p + LENGTH_AT)
        if size < MIN_SIZE_FIELD:
            bad_size[0] = size
            return UNDERSIZED
        total = <int64_t>size + LOG_OVERHEAD
        if position[0] > end - total:
            return PARTIAL
        need = total
        if <signed char>p[MAGIC_AT] >= 2 and total < HEADER_SIZE:
            need = HEADER_SIZE
            if position[0] + need > file_end:
                return SHORT_HEADER
        if at > b.available - need:
            needed[0] = need
            return NEED_BYTES
        put_row(b, length[0], position[0], p, total)
        position[0] += total
        length[0] += 1
        if length[0] == b.capacity:
            return BLOCK_FULL


cdef inline void put_row(const Batches *b, int64_t row, int64_t position, const uint8_t *p, int64_t total) noexcept nogil:
    cdef int64_t offset = get64(p), timestamp
    cdef int magic = <signed char>p[MAGIC_AT]
    b.position[row] = position
    b.size[row] = total
    b.magic[row] = magic
    if magic >= 2:
        b.leader_epoch[row] = get32(p + LEADER_EPOCH_AT)
        b.base_offset[row] = offset
        b.last_offset[row] = add64(offset, get32(p + LAST_OFFSET_DELTA_AT))
        b.attributes[row] = <uint16_t>get16(p + ATTRIBUTES_AT)
        b.crc[row] = <uint32_t>get32(p + CRC_AT)
        b.base_timestamp[row] = get64(p + BASE_TIMESTAMP_AT)
        b.max_timestamp[row] = get64(p + MAX_TIMESTAMP_AT)
        b.producer_id[row] = get64(p + PRODUCER_ID_AT)
        b.producer_epoch[row] = get16(p + PRODUCER_EPOCH_AT)
        b.base_sequence[row] = get32(p + BASE_SEQUENCE_AT)
        b.count[row] = get32(p + COUNT_AT)
        b.valid[row] = (
            total >= HEADER_SIZE
            and <int64_t>kdump_crc32c(0, p + CRC_START, <size_t>(total - CRC_START)) == b.crc[row]
        )
        return
    timestamp = get64(p + MESSAGE_TIMESTAMP_AT) if magic != 0 else -1
    b.leader_epoch[row] = b.producer_id[row] = b.producer_epoch[row] = b.base_sequence[row] = -1
    b.attributes[row] = p[MESSAGE_ATTRIBUTES_AT]
    b.crc[row] = <uint32_t>get32(p + MESSAGE_AT)
    b.base_offset[row] = -1 if b.attributes[row] & CODEC_MASK else offset
    b.last_offset[row] = offset
    b.base_timestamp[row] = b.max_timestamp[row] = timestamp
    b.count[row] = -1 if b.attributes[row] & CODEC_MASK else 1
    b.valid[row] = (
        <int64_t>kdump_crc32(0, p + MESSAGE_CRC_START, <size_t>(total - MESSAGE_CRC_START)) == b.crc[row]
    )


def skip_entries(data, int64_t start, int64_t stop, int64_t end):
    """Return the index in `data` behind the last ordinary entry from index `start` on that begins before `stop`."""
    cdef Py_buffer buffer
    cdef int64_t at = start, total
    cdef const uint8_t *p
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        if start < 0 or stop > buffer.len - FRAME_SIZE:
            raise ValueError("the range is not inside the data")
        with nogil:
            while at < stop:
                p = <const uint8_t *>buffer.buf + at
                total = <int64_t>get32(p + LENGTH_AT) + LOG_OVERHEAD
                if total < (HEADER_SIZE if <signed char>p[MAGIC_AT] >= 2 else MIN_SIZE_FIELD + LOG_OVERHEAD):
                    break
                if at > end - total:
                    break
                at += total
    finally:
        PyBuffer_Release(&buffer)
    return at


def find_batch(data, int64_t start, int64_t stop, int64_t left, int64_t lowest, int64_t highest):
    """Return the index in `data[start:stop]` of the first entry whose header is plausible, or -1."""
    cdef Py_buffer buffer
    cdef int64_t found
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        if start < 0 or stop > buffer.len:
            raise ValueError("the range is not inside the data")
        with nogil:
            found = find_entry(<const uint8_t *>buffer.buf, start, stop, left, lowest, highest)
    finally:
        PyBuffer_Release(&buffer)
    return found


def find_frame(data, int64_t start, int64_t stop, int64_t left):
    """Return the index in `data[start:stop]` of the first entry with a size that fits and a known magic, or -1."""
    cdef Py_buffer buffer
    cdef int64_t index, found = -1
    cdef const uint8_t *p
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        if start < 0 or stop > buffer.len:
            raise ValueError("the range is not inside the data")
        with nogil:
            for index in range(start, stop - FRAME_SIZE + 1):
                p = <const uint8_t *>buffer.buf + index
                if p[MAGIC_AT] <= 2 and MIN_SIZE_FIELD <= get32(p + LENGTH_AT) <= left - index - LOG_OVERHEAD:
                    found = index
                    break
    finally:
        PyBuffer_Release(&buffer)
    return found


cdef int64_t find_entry(
    const uint8_t *data, int64_t start, int64_t stop, int64_t left, int64_t lowest, int64_t highest
) noexcept nogil:
    cdef int64_t index, offset
    cdef int32_t size
    cdef const uint8_t *p
    for index in range(start, stop - HEADER_SIZE + 1):
        p = data + index
        if p[MAGIC_AT] > 2:
            continue
        offset = get64(p)
        size = get32(p + LENGTH_AT)
        if offset < lowest or offset > highest or size < MIN_SIZE_FIELD or <int64_t>size + LOG_OVERHEAD > left - index:
            continue
        if plausible_batch(p, size, offset, highest) if p[MAGIC_AT] == 2 else plausible_message(p, stop - index, size):
            return index
    return -1


cdef bint plausible_batch(const uint8_t *p, int32_t size, int64_t offset, int64_t highest) noexcept nogil:
    cdef int64_t room = <int64_t>size + LOG_OVERHEAD - HEADER_SIZE
    cdef int attributes = <uint16_t>get16(p + ATTRIBUTES_AT)
    cdef int64_t delta = get32(p + LAST_OFFSET_DELTA_AT), count = get32(p + COUNT_AT)
    return (
        room >= 0
        and attributes & ~KNOWN_ATTRIBUTES == 0
        and attributes & CODEC_MASK <= ZSTD
        and delta >= 0
        and <uint64_t>delta <= <uint64_t>highest - <uint64_t>offset  # which may be more than an int64 holds
        and 0 <= count <= delta + 1
        and (attributes & CODEC_MASK != 0 or count * MIN_RECORD_SIZE <= room)
        and get64(p + PRODUCER_ID_AT) >= -1
        and get16(p + PRODUCER_EPOCH_AT) >= -1
        and get32(p + BASE_SEQUENCE_AT) >= -1
    )


cdef bint plausible_message(const uint8_t *p, int64_t stop, int32_t size) noexcept nogil:
    cdef int attributes = p[MESSAGE_ATTRIBUTES_AT]
    cdef int64_t at = MESSAGE_AT + (KEY_SIZE_AT_V1 if p[MAGIC_AT] else KEY_SIZE_AT_V0)
    cdef int64_t key_length, room
    if attributes & ~(KNOWN_ATTRIBUTES_V1 if p[MAGIC_AT] else KNOWN_ATTRIBUTES_V0) or attributes & CODEC_MASK > LZ4:
        return False
    key_length = get32(p + at)
    room = <int64_t>size - (OVERHEAD_V1 if p[MAGIC_AT] else OVERHEAD_V0) - max(0, key_length)
    if key_length < -1 or room < 0:
        return False
    at += LENGTH_SIZE + max(0, key_length)
    return at + LENGTH_SIZE > stop or max(0, get32(p + at)) == room
