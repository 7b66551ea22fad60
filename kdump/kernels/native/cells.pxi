# Texts as cells of CSV.

cdef enum Cell:
    PLAIN, QUOTED, FOREIGN


cdef Cell cell_of(const uint8_t *p, int64_t n, int64_t *quotes) noexcept nogil:
    """What a text needs, and how many quotes are in it. FOREIGN: it has no ASCII but letters and digits."""
    cdef bint foreign = False
    quotes[0] = 0
    if n and kdump_is_plain(p, <size_t>n, &foreign):
        return FOREIGN if foreign else PLAIN
    quotes[0] = <int64_t>kdump_quotes(p, <size_t>n)
    return QUOTED


cdef inline void put_quoted(uint8_t *to, const uint8_t *p, int64_t n, int64_t quotes) noexcept nogil:
    cdef const uint8_t *end = p + n
    cdef int64_t size
    to[0] = 34
    to += 1
    for _ in range(quotes):
        size = <const uint8_t *>memchr(p, 34, <size_t>(end - p)) + 1 - p
        memcpy(to, p, <size_t>size)
        to[size] = 34
        to += size + 1
        p += size
    memcpy(to, p, <size_t>(end - p))
    to[end - p] = 34


def csv_cells(data, offsets, validity, int64_t first, int64_t count):
    """See kdump.kernels.portable.cells."""
    cdef const uint8_t[::1] source = memoryview(data).cast("B")
    cdef const int64_t[::1] ends = memoryview(offsets).cast("B").cast("q")
    cdef const uint8_t[::1] bits = memoryview(b"" if validity is None else validity).cast("B")
    cdef int64_t row, at, size, quotes, total = 0, plain = 0
    cdef bint has_nulls = validity is not None
    cdef Cell cell
    cdef bytearray made, places = bytearray(8 * (count + 1))
    cdef int64_t *to_places = <int64_t *>PyByteArray_AsString(places)
    cdef uint8_t *to
    cdef const uint8_t *start
    cdef uint8_t none = 0
    if first < 0 or count < 0 or ends.shape[0] - 1 - first < count or ends[first] < 0:
        raise ValueError("the offsets are not those of texts in the data")
    for row in range(first, first + count):
        if ends[row + 1] < ends[row]:
            raise ValueError("the offsets are not those of texts in the data")
    if ends[first + count] > source.shape[0] or (has_nulls and bits.shape[0] * 8 < first + count):
        raise ValueError("the offsets are not those of texts in the data")
    start = &source[0] if source.shape[0] else &none
    for row in range(count):
        # the places hold, until all sizes are known, a cell's kind and its quotes
        at, size = ends[first + row], ends[first + row + 1] - ends[first + row]
        if has_nulls and not bits[(first + row) >> 3] >> ((first + row) & 7) & 1:
            to_places[row] = -2
            continue
        cell = cell_of(start + at, size, &quotes)
        if cell == FOREIGN:
            cell = PLAIN if (<bytes>start[at : at + size]).decode().isalnum() else QUOTED
        to_places[row] = -1 if cell == PLAIN else quotes
        plain += cell == PLAIN
        total += size if cell == PLAIN else size + quotes + 2
    if plain == count:
        return None
    made = bytearray(0)
    if PyByteArray_Resize(made, total):
        raise MemoryError
    to = <uint8_t *>PyByteArray_AsString(made)
    with nogil:
        total = 0
        for row in range(count):
            at, size, quotes = ends[first + row], ends[first + row + 1] - ends[first + row], to_places[row]
            to_places[row] = total
            if quotes == -1:
                memcpy(to + total, start + at, <size_t>size)
                total += size
            elif quotes >= 0:
                put_quoted(to + total, start + at, size, quotes)
                total += size + quotes + 2
        to_places[count] = total
    return made, places
