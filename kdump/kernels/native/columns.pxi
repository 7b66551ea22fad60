# Records gathered into columns in the layout of Arrow's buffers (portable.columns).

ctypedef struct Values:
    # one column of byte strings: `length` of them are there, `size` bytes together; or of lists, which have no bytes
    uint8_t *validity
    int32_t *offsets
    uint8_t *data
    int64_t length
    int64_t size
    int64_t nulls

ctypedef struct Wanted:
    # what a pass over records is to look at
    const Batches *batches
    const Records *records
    const Source *sources
    int64_t first
    int64_t stop
    const int64_t *picks  # NULL: from pick_start on, one after the other
    int64_t pick_start
    bint keys
    bint values
    bint headers
    bint control

ctypedef struct Sizes:
    int64_t taken
    int64_t rows
    int64_t keys
    int64_t values
    int64_t headers
    int64_t names
    int64_t contents

cdef enum:
    FIRST_ROOM = 256


cdef inline int64_t pick_at(const Wanted *w, int64_t number) noexcept nogil:
    return w.picks[number] if w.picks != NULL else w.pick_start + number


cdef inline bint is_left_out(const Wanted *w, int64_t row) noexcept nogil:
    return not w.control and w.batches.magic[row] >= 2 and w.batches.attributes[row] & CONTROL != 0


cdef inline bint is_inside(const Source *s, int64_t position, int64_t length) noexcept nogil:
    return length < 0 or (position >= 0 and position <= s.end and length <= s.end - position)


cdef int measure_headers(
    const Source *s, int64_t position, int64_t count, int64_t *names, int64_t *contents
) noexcept nogil:
    """Add up the bytes of the names and of the values of a record's headers; -1 where they are none."""
    cdef int64_t at = position, i, length, skipped
    if position < 0 or position > s.end:
        return -1
    for i in range(count):
        if get_varint(s.data, &at, s.end, &length) or length < 0 or length > s.end - at:
            return -1
        at += length
        names[0] += length
        if get_sized(s.data, &at, s.end, &skipped, &length):
            return -1
        contents[0] += max(length, <int64_t>0)
    return 0


cdef int measure(
    const Wanted *w, int64_t number, int64_t count, int64_t rows, int64_t size, bint empty, Sizes *z
) noexcept nogil:
    """Count the picks from `number` on that fit into `rows` rows and `size` bytes: 0, or -1.

    Where the columns are `empty` the first one fits, however large.
    """
    cdef int64_t at, row, bytes_, total = 0, names, contents, headers
    cdef const Source *s
    while number + z.taken < count:
        at = pick_at(w, number + z.taken)
        if at < 0 or at >= w.records.length:
            return -1
        row = w.records.row[at]
        if row < w.first or row >= w.stop:
            return -1
        if is_left_out(w, row):
            z.taken += 1
            continue
        if z.rows == rows:
            return 0
        s = &w.sources[row - w.first]
        bytes_ = names = contents = headers = 0
        if w.keys:
            if not is_inside(s, w.records.key_position[at], w.records.key_length[at]):
                return -1
            bytes_ += max(w.records.key_length[at], <int64_t>0)
        if w.values:
            if not is_inside(s, w.records.value_position[at], w.records.value_length[at]):
                return -1
            bytes_ += max(w.records.value_length[at], <int64_t>0)
        if w.headers and w.records.headers_count[at] > 0:
            headers = w.records.headers_count[at]
            if measure_headers(s, w.records.headers_position[at], headers, &names, &contents):
                return -1
            bytes_ += names + contents
        if bytes_ > size - total and (z.rows > 0 or not empty):
            return 0
        total += bytes_
        if w.keys:
            z.keys += max(w.records.key_length[at], <int64_t>0)
        if w.values:
            z.values += max(w.records.value_length[at], <int64_t>0)
        z.headers += headers
        z.names += names
        z.contents += contents
        z.taken += 1
        z.rows += 1
    return 0


cdef inline void set_valid(uint8_t *validity, int64_t at, bint valid) noexcept nogil:
    if valid:
        validity[at >> 3] |= <uint8_t>(1 << (at & 7))
    else:
        validity[at >> 3] &= <uint8_t>~(1 << (at & 7))


cdef inline void put_bytes(Values *v, const uint8_t *source, int64_t length) noexcept nogil:
    set_valid(v.validity, v.length, length >= 0)
    if length > 0:
        memcpy(v.data + v.size, source, <size_t>length)
        v.size += length
    elif length < 0:
        v.nulls += 1
    v.length += 1
    v.offsets[v.length] = <int32_t>v.size


cdef void put_headers(const Source *s, int64_t position, int64_t count, Values *names, Values *contents) noexcept nogil:
    """Append the headers of a record, which `measure_headers` has been over."""
    cdef int64_t at = position, i, start = 0, length = 0
    for i in range(count):
        get_varint(s.data, &at, s.end, &length)
        put_bytes(names, s.data + at, length)
        at += length
        get_sized(s.data, &at, s.end, &start, &length)
        put_bytes(contents, s.data + start, length)


cdef void put_columns(
    const Wanted *w, int64_t number, int64_t taken, Values *keys, Values *values, Values *lists, Values *names,
    Values *contents,
) noexcept nogil:
    cdef int64_t i, at, row, count
    cdef const Records *r = w.records
    cdef const Source *s
    for i in range(number, number + taken):
        at = pick_at(w, i)
        row = r.row[at]
        if is_left_out(w, row):
            continue
        s = &w.sources[row - w.first]
        if w.keys:
            put_bytes(keys, s.data + r.key_position[at], r.key_length[at])
        if w.values:
            put_bytes(values, s.data + r.value_position[at], r.value_length[at])
        if w.headers:
            count = r.headers_count[at]
            set_valid(lists.validity, lists.length, count > 0)
            if count > 0:
                put_headers(s, r.headers_position[at], count, names, contents)
            else:
                lists.nulls += 1
            lists.length += 1
            lists.offsets[lists.length] = <int32_t>names.length


cdef void put_numbers(
    const Wanted *w, int64_t number, int64_t taken, const int64_t *source, bint of_batch, int64_t *to
) noexcept nogil:
    cdef int64_t i, at, row, n = 0
    for i in range(number, number + taken):
        at = pick_at(w, i)
        row = w.records.row[at]
        if is_left_out(w, row):
            continue
        to[n] = source[row] if of_batch else source[at]
        n += 1


cdef int make_room(bytearray buffer, int64_t needed) except -1:
    cdef Py_ssize_t room = PyByteArray_Size(buffer)
    if needed > room:
        PyByteArray_Resize(buffer, max(<Py_ssize_t>needed, 2 * room))
    return 0


cdef class ByteColumn:
    """A column of byte strings, or of lists where there is no data."""

    cdef bytearray validity
    cdef bytearray offsets
    cdef bytearray data
    cdef Values v

    def __cinit__(self):
        self.validity = bytearray(FIRST_ROOM)
        self.offsets = bytearray(FIRST_ROOM)
        self.data = bytearray(FIRST_ROOM)

    cdef Values *room(self, int64_t more, int64_t more_bytes) except NULL:
        """Return the column with room for so many more strings, and for so many bytes of them."""
        make_room(self.validity, (self.v.length + more + 7) >> 3)
        make_room(self.offsets, 4 * (self.v.length + more + 1))
        make_room(self.data, self.v.size + more_bytes)
        self.v.validity = <uint8_t *>PyByteArray_AsString(self.validity)
        self.v.offsets = <int32_t *>PyByteArray_AsString(self.offsets)
        self.v.data = <uint8_t *>PyByteArray_AsString(self.data)
        self.v.offsets[0] = 0
        return &self.v

    cdef tuple take(self):
        """Return (nulls, validity, offsets, data); the column is empty then."""
        cdef Py_ssize_t used = (self.v.length + 7) >> 3
        self.room(0, 0)
        if self.v.length & 7:
            self.v.validity[used - 1] &= <uint8_t>((1 << (self.v.length & 7)) - 1)
        PyByteArray_Resize(self.validity, used)
        PyByteArray_Resize(self.offsets, 4 * (self.v.length + 1))
        PyByteArray_Resize(self.data, self.v.size)
        taken = (self.v.nulls, self.validity, self.offsets, self.data)
        self.validity = bytearray(FIRST_ROOM)
        self.offsets = PyByteArray_FromStringAndSize(NULL, 4 * (self.v.length + 1) + FIRST_ROOM)
        self.data = PyByteArray_FromStringAndSize(NULL, self.v.size + FIRST_ROOM)
        self.v.length = self.v.size = self.v.nulls = 0
        return taken


def _column_name(name):
    """Return the name of a column, and whether it is one of the batches."""
    return (name[6:], True) if name.startswith("batch.") else (name, False)


cdef class RecordColumns(Exclusive):
    """See portable.columns."""

    cdef readonly int64_t length
    cdef readonly int64_t size
    cdef int64_t _most_rows
    cdef int64_t _most_bytes
    cdef bint _control
    cdef list _names
    cdef list _numbers
    cdef ByteColumn _keys
    cdef ByteColumn _values
    cdef ByteColumn _lists
    cdef ByteColumn _header_names
    cdef ByteColumn _header_values

    def __cinit__(self, numbers, key, value, headers, *, control, most_rows, most_bytes):
        if most_rows < 1 or not 0 <= most_bytes <= 0x7FFFFFFF:
            raise ValueError("a column holds at least one row, and at most 2147483647 bytes")
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._control = control
        # No list comprehensions: where memory runs out, Cython 3.3 frees what it could not append a second time.
        self._names = list(map(_column_name, numbers))
        self._numbers = list(map(bytearray, (FIRST_ROOM,) * len(self._names)))
        self._keys = ByteColumn() if key else None
        self._values = ByteColumn() if value else None
        if headers:
            self._lists = ByteColumn()
            self._header_names = ByteColumn()
            self._header_values = ByteColumn()

    def add(self, block, records, int64_t first, payloads, picks, int64_t skip=0):
        """Append the records `picks[skip:]`; return how many of the picks are dealt with."""
        cdef Batches b
        cdef Records r
        cdef Wanted w
        cdef Sizes z
        cdef Exports exports
        cdef Source *sources = NULL
        cdef tuple kept = tuple(payloads)
        cdef int64_t count = len(picks)
        cdef int failed
        exports.count = 0
        if skip < 0 or skip > count:
            raise ValueError("there are fewer picks")
        w.picks = NULL
        w.pick_start = 0
        listed = None
        if isinstance(picks, range):
            if picks.step != 1:
                raise ValueError("a range of picks has no step")
            w.pick_start = picks.start
        else:
            listed = array("q", picks)
        w.first = first
        w.stop = first + len(kept)
        w.keys = self._keys is not None
        w.values = self._values is not None
        w.headers = self._lists is not None
        w.control = self._control
        z.taken = z.rows = z.keys = z.values = z.headers = z.names = z.contents = 0
        self.claim()
        try:
            if listed:
                w.picks = numbers_of(listed, count, &exports)
            bind_batches(block, &b, &exports)
            check_rows(&b, w.first, w.stop, True)
            bind_records(records, &r, &exports)
            r.length = records.length
            if r.length < 0 or r.length > r.capacity:
                raise ValueError("the record block is shorter than it says")
            sources = bind_sources(&b, w.first, w.stop, kept)
            w.batches = &b
            w.records = &r
            w.sources = sources
            with nogil:
                failed = measure(
                    &w, skip, count, self._most_rows - self.length, self._most_bytes - self.size, self.length == 0, &z
                )
            if failed:
                raise ValueError("the records are not those of these batches")
            self._put(&w, &z, skip, block, records)
        finally:
            self.unclaim()
            free(sources)
            release(&exports)
        return skip + z.taken

    cdef int _put(self, const Wanted *w, const Sizes *z, int64_t skip, object block, object records) except -1:
        cdef Values *keys = NULL
        cdef Values *values = NULL
        cdef Values *lists = NULL
        cdef Values *names = NULL
        cdef Values *contents = NULL
        cdef bytearray numbers
        cdef Exports exports
        cdef const int64_t *source
        cdef bint of_batch
        cdef int64_t *to
        exports.count = 0
        if w.keys:
            keys = self._keys.room(z.rows, z.keys)
        if w.values:
            values = self._values.room(z.rows, z.values)
        if w.headers:
            lists = self._lists.room(z.rows, 0)
            names = self._header_names.room(z.headers, z.names)
            contents = self._header_values.room(z.headers, z.contents)
        for numbers, (name, of_batch) in zip(self._numbers, self._names, strict=True):
            make_room(numbers, 8 * (self.length + z.rows))
            try:
                source = column(
                    block if of_batch else records,
                    name,
                    w.batches.capacity if of_batch else w.records.capacity,
                    &exports,
                )
                to = <int64_t *>PyByteArray_AsString(numbers) + self.length
                with nogil:
                    put_numbers(w, skip, z.taken, source, of_batch, to)
            finally:
                release(&exports)
        with nogil:
            put_columns(w, skip, z.taken, keys, values, lists, names, contents)
        self.length += z.rows
        self.size += z.keys + z.values + z.names + z.contents
        return 0

    def take(self):
        """Return what has been gathered, as (rows, numbers, key, value, headers); the columns are empty then."""
        self.claim()
        try:
            return self._take()
        finally:
            self.unclaim()

    cdef tuple _take(self):
        cdef bytearray buffer
        cdef int64_t length = self.length
        for buffer in self._numbers:
            PyByteArray_Resize(buffer, 8 * length)
        numbers = self._numbers
        self._numbers = list(map(bytearray, (8 * length + FIRST_ROOM,) * len(numbers)))
        headers = None
        if self._lists is not None:
            nulls, validity, offsets, _ = self._lists.take()
            headers = (nulls, validity, offsets, self._header_names.take(), self._header_values.take())
        key = self._keys.take() if self._keys is not None else None
        value = self._values.take() if self._values is not None else None
        self.length = self.size = 0
        return length, numbers, key, value, headers


cdef uint32_t murmur2_of(const uint8_t *p, int64_t length) noexcept nogil:
    cdef uint32_t h = 0x9747B28CU ^ <uint32_t>length, k
    cdef int64_t at = 0
    while length - at >= 4:
        k = p[at] | <uint32_t>p[at + 1] << 8 | <uint32_t>p[at + 2] << 16 | <uint32_t>p[at + 3] << 24
        k *= 0x5BD1E995
        k ^= k >> 24
        h = h * 0x5BD1E995 ^ k * 0x5BD1E995
        at += 4
    if length - at == 3:
        h ^= <uint32_t>p[at + 2] << 16
    if length - at >= 2:
        h ^= <uint32_t>p[at + 1] << 8
    if length - at >= 1:
        h = (h ^ p[at]) * 0x5BD1E995
    h = (h ^ h >> 13) * 0x5BD1E995
    return h ^ h >> 15


def murmur2(data, offsets):
    """Return Kafka's hash of each of the byte strings between `offsets` (32-bit) in `data`, as 32-bit integers."""
    cdef const uint8_t[::1] source = data
    cdef const int32_t[::1] ends = memoryview(offsets).cast("B").cast("i")
    cdef int64_t row, rows = ends.shape[0] - 1
    cdef bytearray hashes
    cdef int32_t *to
    if rows < 0 or ends[0] < 0:
        raise ValueError("the offsets are not those of byte strings in the data")
    for row in range(rows):
        if ends[row + 1] < ends[row]:
            raise ValueError("the offsets are not those of byte strings in the data")
    if ends[rows] > source.shape[0]:
        raise ValueError("the offsets are not those of byte strings in the data")
    hashes = bytearray(4 * rows)
    to = <int32_t *>PyByteArray_AsString(hashes)
    with nogil:
        for row in range(rows):
            to[row] = <int32_t>murmur2_of(
                &source[0] + ends[row] if source.shape[0] else NULL, ends[row + 1] - ends[row]
            )
    return hashes
