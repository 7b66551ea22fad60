# Keys and their latest offsets; records that stay, encoded anew (portable.compaction).

cdef enum:
    SUPERSEDED = 0
    KEPT = 1
    EXPIRED = 2
    KEPT_TOMBSTONE = 3
    KEYLESS = 4
    HASH_SIZE = 16
    LAST_WORD = 12
    FIRST_SLOTS = 1 << 16
    LANES = 8
    SHORT_KEY = 55

FATE_NUMBERS = {
    "SUPERSEDED": SUPERSEDED, "KEPT": KEPT, "EXPIRED": EXPIRED, "KEPT_TOMBSTONE": KEPT_TOMBSTONE, "KEYLESS": KEYLESS,
}

ctypedef struct MapEntry:
    uint8_t sum[16]
    int64_t offset

ctypedef struct Lanes:
    # keys whose sums are computed side by side
    const uint8_t *key[8]
    size_t length[8]
    uint8_t *sum[8]
    int count


cdef class OffsetMap:
    """Kafka's SkimpyOffsetMap; see portable.compaction."""

    cdef readonly int64_t slots
    cdef readonly int64_t size
    cdef readonly int64_t limit
    cdef int64_t used_slots
    cdef MapEntry *entries
    cdef uint8_t *sums
    cdef int64_t most_sums

    def __cinit__(self, int64_t memory, int64_t limit):
        self.slots = memory // <int64_t>sizeof(MapEntry)
        if limit < 0 or limit > self.slots or self.slots < 1:
            raise ValueError(f"{memory} bytes have no room for {limit} keys")
        self.limit = limit
        self.size = 0
        self.used_slots = min(self.slots, <int64_t>FIRST_SLOTS)
        self.entries = <MapEntry *>kdump_zeros(<size_t>self.used_slots * sizeof(MapEntry))
        if self.entries == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.entries)
        free(self.sums)

    def put(self, bytes key, int64_t offset):
        """Note that `key` has `offset`; False when the map has reached its limit, be it that the key is known."""
        cdef uint8_t sum[16]
        if self.size >= self.limit:
            return False
        kdump_md5(<const uint8_t *>PyBytes_AS_STRING(key), <size_t>PyBytes_GET_SIZE(key), sum)
        self.make_room(1)
        self.note(sum, offset)
        return True

    def get(self, bytes key):
        """The offset noted for `key`; -1 where there is none."""
        cdef uint8_t sum[16]
        kdump_md5(<const uint8_t *>PyBytes_AS_STRING(key), <size_t>PyBytes_GET_SIZE(key), sum)
        return self.find(sum)

    def take(self, block, records, int64_t first, payloads, wanted, int64_t start_offset):
        """Note the keys of decoded records; the number of the first one that there is no room for."""
        cdef Batches b
        cdef Records r
        cdef Lanes lanes
        cdef Source *sources = NULL
        cdef Py_buffer buffer
        cdef const uint8_t[::1] rows = wanted
        cdef int64_t at, stop = first + len(payloads), length = records.length
        if rows.shape[0] < stop - first:
            raise ValueError("not all rows are told to be wanted or not")
        PyObject_GetBuffer(block.data, &buffer, PyBUF_SIMPLE)
        try:
            bind_batches(block, &b, &buffer)
            bind_records(records, &r)
            check_rows(&b, first, stop, True)
            sources = bind_sources(&b, first, stop, payloads)
            check_keys(&b, &r, length, first, stop, sources)
            self.make_room(length)
            self.make_sums(length)
            lanes.count = 0
            with nogil:
                for at in range(length):
                    if rows[r.row[at] - first] and r.key_length[at] >= 0 and r.offset[at] >= start_offset:
                        self.sum_up(&lanes, &r, at, &sources[r.row[at] - first])
                self.sum_rest(&lanes)
                for at in range(length):
                    if not rows[r.row[at] - first] or r.key_length[at] < 0 or r.offset[at] < start_offset:
                        continue
                    if self.size >= self.limit:
                        length = at
                        break
                    self.note(self.sums + HASH_SIZE * at, r.offset[at])
        finally:
            free(sources)
            PyBuffer_Release(&buffer)
        return length

    def sift(
        self, block, records, int64_t first, payloads, int64_t latest_offset, int64_t now, bint keeps_legacy_tombstones
    ):
        """What becomes of each decoded record."""
        cdef Batches b
        cdef Records r
        cdef Lanes lanes
        cdef Source *sources = NULL
        cdef Py_buffer buffer
        cdef int64_t at, stop = first + len(payloads), length = records.length
        cdef uint8_t *fates
        cdef uint8_t fate
        found = PyByteArray_FromStringAndSize(NULL, <Py_ssize_t>length)
        fates = <uint8_t *>PyByteArray_AS_STRING(found)
        PyObject_GetBuffer(block.data, &buffer, PyBUF_SIMPLE)
        try:
            bind_batches(block, &b, &buffer)
            bind_records(records, &r)
            check_rows(&b, first, stop, True)
            sources = bind_sources(&b, first, stop, payloads)
            check_keys(&b, &r, length, first, stop, sources)
            self.make_sums(length)
            lanes.count = 0
            with nogil:
                for at in range(length):
                    if r.key_length[at] >= 0 and r.offset[at] <= latest_offset:
                        self.sum_up(&lanes, &r, at, &sources[r.row[at] - first])
                self.sum_rest(&lanes)
                for at in range(length):
                    fate = KEPT_TOMBSTONE if r.value_length[at] < 0 else KEPT
                    if r.offset[at] <= latest_offset:
                        if r.key_length[at] < 0:
                            fate = KEYLESS
                        elif r.offset[at] < self.find(self.sums + HASH_SIZE * at):
                            fate = SUPERSEDED
                        elif fate == KEPT_TOMBSTONE and not retains(&b, r.row[at], now, keeps_legacy_tombstones):
                            fate = EXPIRED
                    fates[at] = fate
        finally:
            free(sources)
            PyBuffer_Release(&buffer)
        return found

    cdef int make_sums(self, int64_t length) except -1:
        """Have room for the sums of so many keys."""
        cdef uint8_t *sums
        if length > self.most_sums:
            sums = <uint8_t *>realloc(self.sums, <size_t>(length * HASH_SIZE))
            if sums == NULL:
                raise MemoryError
            self.sums = sums
            self.most_sums = length
        return 0

    cdef inline void sum_up(self, Lanes *lanes, const Records *r, int64_t at, const Source *s) noexcept nogil:
        """The sum of a record's key, at once or together with those that follow."""
        lanes.key[lanes.count] = s.data + r.key_position[at]
        lanes.length[lanes.count] = <size_t>r.key_length[at]
        lanes.sum[lanes.count] = self.sums + HASH_SIZE * at
        if r.key_length[at] > SHORT_KEY:
            self.sum_one(lanes, lanes.count)
            return
        lanes.count += 1
        if lanes.count == LANES:
            kdump_md5_short(lanes.key, lanes.length, lanes.sum)
            for lane in range(LANES):
                kdump_prefetch(&self.entries[self.slot(lanes.sum[lane], 0)])
            lanes.count = 0

    cdef inline void sum_rest(self, Lanes *lanes) noexcept nogil:
        for lane in range(lanes.count):
            self.sum_one(lanes, lane)
        lanes.count = 0

    cdef inline void sum_one(self, Lanes *lanes, int lane) noexcept nogil:
        """The sum of one key; the processor is told that its entry is soon needed."""
        kdump_md5(lanes.key[lane], lanes.length[lane], lanes.sum[lane])
        kdump_prefetch(&self.entries[self.slot(lanes.sum[lane], 0)])

    cdef int make_room(self, int64_t more) except -1:
        """Enlarge the table, up to all of the memory, until half of it is free after so many new entries."""
        cdef int64_t slots = self.used_slots, at
        cdef MapEntry *old = self.entries
        cdef MapEntry *new
        while slots < self.slots and slots < 2 * (self.size + more):
            slots = min(2 * slots, self.slots)
        if slots == self.used_slots:
            return 0
        new = <MapEntry *>kdump_zeros(<size_t>slots * sizeof(MapEntry))
        if new == NULL:
            raise MemoryError
        self.entries = new
        slots, self.used_slots = self.used_slots, slots
        self.size = 0
        for at in range(slots):
            if not is_empty(&old[at]):
                self.note(old[at].sum, old[at].offset)
        free(old)
        return 0

    cdef void note(self, const uint8_t *sum, int64_t offset) noexcept nogil:
        """There must be an empty entry, or one of this key."""
        cdef MapEntry *entry
        cdef int64_t attempt = 0
        while True:
            entry = &self.entries[self.slot(sum, attempt)]
            if is_empty(entry):
                memcpy(entry.sum, sum, HASH_SIZE)
                self.size += 1
                break
            if memcmp(entry.sum, sum, HASH_SIZE) == 0:
                break
            attempt += 1
        entry.offset = offset

    cdef int64_t find(self, const uint8_t *sum) noexcept nogil:
        cdef MapEntry *entry
        cdef int64_t attempt
        for attempt in range(self.used_slots + LAST_WORD):
            entry = &self.entries[self.slot(sum, attempt)]
            if is_empty(entry):
                return -1
            if memcmp(entry.sum, sum, HASH_SIZE) == 0:
                return entry.offset
        return -1

    cdef inline int64_t slot(self, const uint8_t *sum, int64_t attempt) noexcept nogil:
        cdef int64_t word = attempt if attempt < LAST_WORD else LAST_WORD
        cdef int32_t probe = <int32_t>(<uint32_t>get32(sum + word) + <uint32_t>(attempt - word))
        if probe == <int32_t>0x80000000:
            return 0
        return (-<int64_t>probe if probe < 0 else probe) % self.used_slots


cdef inline bint is_empty(const MapEntry *entry) noexcept nogil:
    cdef uint64_t words[2]
    memcpy(words, entry.sum, HASH_SIZE)
    return words[0] == 0 and words[1] == 0 and entry.offset == 0


cdef inline bint retains(const Batches *b, int64_t row, int64_t now, bint keeps_legacy_tombstones) noexcept nogil:
    """Whether the tombstones of a batch stay."""
    if b.magic[row] < 2:
        return keeps_legacy_tombstones
    return not b.attributes[row] & DELETE_HORIZON or now < b.base_timestamp[row]


cdef inline bint lies_inside(const Batches *b, const Source *s, int64_t position, int64_t length) noexcept nogil:
    cdef int64_t available = s.end if s.confined else b.available
    return length <= 0 or (0 <= position <= available and length <= available - position)


cdef int check_keys(
    const Batches *b, const Records *r, int64_t length, int64_t first, int64_t stop, const Source *sources
) except -1:
    """Refuse records of other rows, and keys outside their source."""
    cdef int64_t at
    if length < 0 or length > r.capacity:
        raise ValueError("the record block is shorter than it says")
    for at in range(length):
        if r.row[at] < first or r.row[at] >= stop:
            raise ValueError(f"record {at} is of another batch")
        if not lies_inside(b, &sources[r.row[at] - first], r.key_position[at], r.key_length[at]):
            raise ValueError(f"the key of record {at} is not inside its source")
    return 0


def encode_kept(block, records, int64_t start, int64_t stop, fates, payload, int64_t base_offset, base_timestamp):
    """The records that stay, behind room for a batch's header; their base timestamp and largest timestamp."""
    cdef Batches b
    cdef Records r
    cdef Source s
    cdef Py_buffer buffer
    cdef const uint8_t[::1] kept = fates
    cdef int64_t at, row, body, total = HEADER_SIZE, base, largest, length = records.length
    cdef int64_t first = -1
    cdef uint8_t *to
    if start < 0 or stop <= start or stop > length or stop > kept.shape[0]:
        raise ValueError("records outside the block")
    PyObject_GetBuffer(block.data, &buffer, PyBUF_SIMPLE)
    try:
        bind_batches(block, &b, &buffer)
        bind_records(records, &r)
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
        to = <uint8_t *>PyByteArray_AS_STRING(data)
        memset(to, 0, HEADER_SIZE)
        to += HEADER_SIZE
        for at in range(first, stop):
            if kept[at] & 1:
                to = put_kept(to, &b, &r, at, &s, base_offset, base)
    finally:
        PyBuffer_Release(&buffer)
    return data, base, largest


cdef int64_t kept_size(
    const Batches *b, const Records *r, int64_t at, const Source *s, int64_t base_offset, int64_t base_timestamp
) noexcept nogil:
    """How many bytes a record takes behind its length; -1 where its headers cannot be read."""
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
