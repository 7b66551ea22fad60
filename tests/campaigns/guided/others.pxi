# Stages for what is no log: texts, new records, the rows of indexes, bytes.

cdef list renderers = []


cdef object row_renderer(int kind, bint is_csv):
    """One of the renderers of rows, all of which live as long as the process."""
    if not renderers:
        for each in range(16):
            twin = b"," if each & 8 else b',"vBase64":'
            has_twin = each & 7 in (ROW_TEXT, ROW_BYTES, ROW_JSON)
            renderers.append(RowText([(each & 7, b'{"v":', twin if has_twin else b"")], each & 8))
    return renderers[kind | (8 if is_csv else 0)]


cdef int run_texts(const Input *given) except -1:
    """Bytes, and how long each of the texts in it is: rendered as a column of some kind, and hashed."""
    cdef const uint8_t *data = laid(first_end, given.first, given.first_size)
    cdef int64_t count = <int64_t>min(given.second_size, <size_t>MOST_NUMBERS - 1), row, at = 0
    cdef int32_t *ends = <int32_t *>number_ends[0] - count - 1
    cdef int32_t *lists = <int32_t *>number_ends[1] - count - 1
    cdef size_t size = 4 * <size_t>(count + 1), bits = <size_t>(count + 7) // 8
    cdef int kind = given.stage & 7
    cdef int64_t first = given.flags >> 1 & 7
    ends[0] = lists[0] = 0
    for row in range(count):
        at = min(at + given.second[row], <int64_t>given.first_size)
        ends[row + 1] = <int32_t>at
        lists[row + 1] = <int32_t>min(2 * row + 2, count)
    source, places = view_of(data, given.first_size), view_of(ends, size)
    validity = view_of(laid(number_ends[2], given.second, bits), bits) if given.flags & 1 else None
    texts_ = (first, validity, places, source)
    if kind == ROW_HEADERS:
        texts_ = (first, validity, view_of(lists, size), (0, None, places, source), (0, validity, places, source))
    elif kind in (ROW_INT32, ROW_INT64, ROW_BOOL):
        texts_ = (first, validity, source)
    try:
        row_renderer(kind, given.stage & 8 != 0).render(max(count - first, 0), [texts_], len)
    except ValueError:
        pass
    murmur2(source, places)
    crc32c(source, given.extra)
    crc32(source, given.extra)
    figures[NUMBER_OF_ROWS] += 1
    figures[NUMBER_OF_HASHES] += 1
    figures[NUMBER_OF_CRC] += 2
    return 0


cdef inline int64_t short_at(const uint8_t *p, size_t at) noexcept nogil:
    return get16(p + at)


cdef int run_new(const Input *given) except -1:
    """Rows of small numbers, and the source that they lead into."""
    cdef int64_t count = <int64_t>min(given.first_size // NEW_WIDTH, <size_t>MOST_NUMBERS), row, i
    cdef const uint8_t *p
    cdef int64_t *columns[8]
    if count == 0:
        return 0
    for i in range(8):
        columns[i] = <int64_t *>number_ends[i] - count
    for row in range(count):
        p = given.first + NEW_WIDTH * row
        columns[0][row] = <int64_t>get32(p) << (32 if given.flags & 1 else 0)
        for i in range(7):
            columns[i + 1][row] = short_at(p, <size_t>(4 + 2 * i))
    new_records.length = count
    new_records.source = view_of(laid(second_end, given.second, given.second_size), given.second_size)
    new_records.timestamp = numbers_at(columns[0], count)
    new_records.key_position = numbers_at(columns[1], count)
    new_records.key_length = numbers_at(columns[2], count)
    new_records.value_position = numbers_at(columns[3], count)
    new_records.value_length = numbers_at(columns[4], count)
    new_records.headers_position = numbers_at(columns[5], count)
    new_records.headers_length = numbers_at(columns[6], count)
    new_records.headers_count = numbers_at(columns[7], count)
    try:
        encode(new_records, given.stage % count, count, 16 * given.extra, given.flags)
    except ValueError:
        pass
    figures[NUMBER_OF_ENCODE] += 1
    return 0


cdef int run_index(const Input *given) except -1:
    """The entries of an index as columns."""
    cdef int64_t count = <int64_t>min(given.first_size // <size_t>given.width, <size_t>MOST_NUMBERS), row
    cdef const uint8_t *p
    cdef int64_t *left
    cdef int64_t *right
    if count == 0:
        return 0
    left, right = <int64_t *>number_ends[0] - count, <int64_t *>number_ends[1] - count
    for row in range(count):
        p = given.first + given.width * row
        left[row] = get32(p) if given.width == 8 else get64(p) if given.width == 12 else get64(p + 10)
        right[row] = get32(p + 4) if given.width == 8 else get32(p + 8) if given.width == 12 else get64(p + 18)
    lefts, rights = numbers_at(left, count), numbers_at(right, count)
    column_stats(lefts)
    column_stats(rights)
    differences(lefts, rights)
    figures[NUMBER_OF_SURVEY] += 3
    return 0


cdef int run_bytes(const Input *given) except -1:
    crc32c(view_of(laid(first_end, given.first, given.first_size), given.first_size), 0)
    figures[NUMBER_OF_CRC] += 1
    return 0
