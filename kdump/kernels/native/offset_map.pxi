# Keys and their latest offsets (portable.compaction).

cdef enum:
    HASH_SIZE = 16
    LAST_WORD = 12
    FIRST_SLOTS = 1 << 16
    LANES = 16
    STRETCH = 64
    SHORT_KEY = 55
    UNMARKED = 0
    LATEST = 1
    OVERTAKEN = 2
    MARK_BYTES = 1 << 24
    MARKS_IN_BYTE = 4

ctypedef struct MapEntry:
    uint8_t sum[HASH_SIZE]
    int64_t offset

ctypedef struct Lanes:
    # keys whose sums are computed side by side
    const uint8_t *key[LANES]
    size_t length[LANES]
    uint8_t *sum[LANES]
    int count


cdef class OffsetMap(Exclusive):
    """Kafka's SkimpyOffsetMap; see portable.compaction.

    Besides the table there are marks, two bits an offset as far as MARK_BYTES reach: whether the record at that offset
    has a later one of its key, so that its key need not be looked up again. They are given up where the offsets of the
    records do not rise, or an entry lies farther from its first slot than `find` goes.
    """

    cdef readonly int64_t slots
    cdef readonly int64_t size
    cdef readonly int64_t limit
    cdef int64_t used_slots
    cdef MapEntry *entries
    cdef uint8_t sums[STRETCH * HASH_SIZE]
    cdef uint32_t seen
    cdef uint8_t *marks
    cdef bint is_marking
    cdef int64_t first_marked
    cdef int64_t last_taken

    def __cinit__(self, int64_t memory, int64_t limit):
        self.slots = memory // <int64_t>sizeof(MapEntry)
        if limit < 0 or limit > self.slots or self.slots < 1:
            raise ValueError(f"{memory} bytes have no room for {limit} keys")
        self.limit = limit
        self.size = 0
        self.used_slots = min(self.slots, <int64_t>FIRST_SLOTS)
        self.is_marking = True
        self.last_taken = INT64_MIN
        self.entries = <MapEntry *>kdump_zeros(<size_t>self.used_slots * sizeof(MapEntry))
        if self.entries == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.entries)
        free(self.marks)

    def put(self, bytes key, int64_t offset):
        """Note that `key` has `offset`; return False if the map has reached its limit, be it that the key is known."""
        cdef uint8_t sum[HASH_SIZE]
        self.check_unclaimed()
        if self.size >= self.limit:
            return False
        kdump_md5(<const uint8_t *>PyBytes_AsString(key), <size_t>PyBytes_Size(key), sum)
        self.make_room(1)
        self.is_marking = False
        self.note(sum, offset)
        return True

    def get(self, bytes key):
        """Return the offset noted for `key`; -1 where there is none."""
        cdef uint8_t sum[HASH_SIZE]
        self.check_unclaimed()
        kdump_md5(<const uint8_t *>PyBytes_AsString(key), <size_t>PyBytes_Size(key), sum)
        return self.find(sum)

    def take(self, block, records, int64_t first, payloads, wanted, int64_t start_offset):
        """Note the keys of decoded records; return the number of the first one that there is no room for."""
        cdef Batches b
        cdef Records r
        cdef Lanes lanes
        cdef Source *sources = NULL
        cdef Exports exports
        cdef const uint8_t[::1] rows = wanted
        cdef tuple kept = tuple(payloads)
        cdef int64_t at, start, end = 0, stop = first + len(kept), length = records.length, full_at = length
        if rows.shape[0] < stop - first:
            raise ValueError("not all rows are told to be wanted or not")
        exports.count = 0
        self.claim()
        try:
            bind_batches(block, &b, &exports)
            bind_records(records, &r, &exports)
            check_rows(&b, first, stop, True)
            sources = bind_sources(&b, first, stop, kept)
            check_keys(&b, &r, length, first, stop, sources)
            self.make_room(length)
            if length:
                self.make_marks(r.offset[0])
            lanes.count = 0
            with nogil:
                while end < length and full_at == length:
                    start, end = end, min(end + STRETCH, length)
                    for at in range(start, end):
                        if rows[r.row[at] - first] and r.key_length[at] >= 0 and r.offset[at] >= start_offset:
                            self.sum_up(&lanes, &r, at, &sources[r.row[at] - first], at - start)
                    self.sum_rest(&lanes)
                    self.fetch(end - start)
                    for at in range(start, end):
                        if r.offset[at] <= self.last_taken:
                            self.is_marking = False
                        self.last_taken = r.offset[at]
                        if not rows[r.row[at] - first] or r.key_length[at] < 0 or r.offset[at] < start_offset:
                            continue
                        if self.size >= self.limit:
                            full_at = at
                            break
                        self.note(self.sums + HASH_SIZE * (at - start), r.offset[at])
        finally:
            self.unclaim()
            free(sources)
            release(&exports)
        return full_at

    def classify(
        self, block, records, int64_t first, payloads, int64_t latest_offset, int64_t now, bint keeps_legacy_tombstones,
        int64_t taken_row, int64_t taken_stop,
    ):
        """Return what becomes of each decoded record."""
        cdef Batches b
        cdef Records r
        cdef Lanes lanes
        cdef Source *sources = NULL
        cdef Exports exports
        cdef tuple kept = tuple(payloads)
        cdef int64_t at, start, end = 0, stop = first + len(kept), length = records.length
        cdef uint8_t *verdicts
        cdef uint8_t verdict
        cdef int mark
        found = PyByteArray_FromStringAndSize(NULL, <Py_ssize_t>length)
        verdicts = <uint8_t *>PyByteArray_AsString(found)
        exports.count = 0
        self.claim()
        try:
            bind_batches(block, &b, &exports)
            bind_records(records, &r, &exports)
            check_rows(&b, first, stop, True)
            sources = bind_sources(&b, first, stop, kept)
            check_keys(&b, &r, length, first, stop, sources)
            lanes.count = 0
            with nogil:
                while end < length:
                    start, end = end, min(end + STRETCH, length)
                    for at in range(start, end):
                        mark = self.mark_of(r.offset[at]) if taken_row <= r.row[at] < taken_stop else UNMARKED
                        verdicts[at] = <uint8_t>mark
                        if mark == UNMARKED and r.key_length[at] >= 0 and r.offset[at] <= latest_offset:
                            self.sum_up(&lanes, &r, at, &sources[r.row[at] - first], at - start)
                    self.sum_rest(&lanes)
                    self.fetch(end - start)
                    for at in range(start, end):
                        mark = verdicts[at]
                        verdict = RETAINED_TOMBSTONE if r.value_length[at] < 0 else RETAINED
                        if r.offset[at] <= latest_offset:
                            if r.key_length[at] < 0:
                                verdict = KEYLESS
                            elif mark == OVERTAKEN or (
                                mark == UNMARKED and r.offset[at] < self.find(self.sums + HASH_SIZE * (at - start))
                            ):
                                verdict = SUPERSEDED
                            elif verdict == RETAINED_TOMBSTONE and not retains(&b, r.row[at], now, keeps_legacy_tombstones):
                                verdict = EXPIRED
                        verdicts[at] = verdict
        finally:
            self.unclaim()
            free(sources)
            release(&exports)
        return found

    cdef int make_marks(self, int64_t first_offset) except -1:
        """Have room for marks from this offset on, unless there is; no page of it is touched before it is needed."""
        if self.marks == NULL and self.is_marking:
            self.first_marked = first_offset
            self.marks = <uint8_t *>calloc(MARK_BYTES, 1)
            if self.marks == NULL:
                raise MemoryError
        return 0

    cdef inline int mark_of(self, int64_t offset) noexcept nogil:
        cdef uint64_t at = <uint64_t>offset - <uint64_t>self.first_marked
        if not self.is_marking or self.marks == NULL or at >= <uint64_t>MARK_BYTES * MARKS_IN_BYTE:
            return UNMARKED
        return self.marks[at // MARKS_IN_BYTE] >> (2 * (at % MARKS_IN_BYTE)) & 3

    cdef inline void mark(self, int64_t offset, int value) noexcept nogil:
        cdef uint64_t at = <uint64_t>offset - <uint64_t>self.first_marked
        cdef int shift = 2 * <int>(at % MARKS_IN_BYTE)
        cdef uint8_t *byte
        if self.marks != NULL and at < <uint64_t>MARK_BYTES * MARKS_IN_BYTE:
            byte = &self.marks[at // MARKS_IN_BYTE]
            byte[0] = <uint8_t>(byte[0] & ~(3 << shift) | value << shift)

    cdef inline void sum_up(self, Lanes *lanes, const Records *r, int64_t at, const Source *s, int64_t to) noexcept nogil:
        """Compute the sum of a record's key, at once or together with those that follow, as number `to`."""
        lanes.key[lanes.count] = s.data + r.key_position[at]
        lanes.length[lanes.count] = <size_t>r.key_length[at]
        lanes.sum[lanes.count] = self.sums + HASH_SIZE * to
        if r.key_length[at] > SHORT_KEY:
            kdump_md5(lanes.key[lanes.count], lanes.length[lanes.count], lanes.sum[lanes.count])
            return
        lanes.count += 1
        if lanes.count == LANES:
            kdump_md5_short(lanes.key, lanes.length, lanes.sum)
            lanes.count = 0

    cdef inline void sum_rest(self, Lanes *lanes) noexcept nogil:
        for lane in range(lanes.count):
            kdump_md5(lanes.key[lane], lanes.length[lane], lanes.sum[lane])
        lanes.count = 0

    cdef void fetch(self, int64_t count) noexcept nogil:
        """Bring the entries where the first `count` sums are looked for first into the cache, all at the same time.

        By reading them: of many prefetches at once processors drop most.
        """
        cdef int64_t at
        cdef const uint8_t *entry
        cdef uint32_t seen = 0
        for at in range(count):
            entry = <const uint8_t *>&self.entries[self.slot(self.sums + HASH_SIZE * at, 0)]
            seen += entry[0] + entry[sizeof(MapEntry) - 1]
        self.seen = seen

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
        """Note a sum; there must be an empty entry, or one of this key."""
        cdef MapEntry *entry
        cdef int64_t attempt = 0
        while True:
            entry = &self.entries[self.slot(sum, attempt)]
            if is_empty(entry):
                memcpy(entry.sum, sum, HASH_SIZE)
                self.size += 1
                break
            if memcmp(entry.sum, sum, HASH_SIZE) == 0:
                self.mark(entry.offset, OVERTAKEN)
                break
            attempt += 1
        if attempt >= self.used_slots + LAST_WORD:
            self.is_marking = False
        entry.offset = offset
        self.mark(offset, LATEST)

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
        """Return where to look at this attempt: where Kafka does, or beside the first place while the table can grow."""
        cdef bint grows = self.used_slots < self.slots
        cdef int64_t word = 0 if grows else min(attempt, <int64_t>LAST_WORD)
        cdef int32_t probe = <int32_t>(<uint32_t>get32(sum + word) + <uint32_t>(0 if grows else attempt - word))
        cdef int64_t slot = 0
        if probe != <int32_t>0x80000000:
            slot = -probe if probe < 0 else probe
        if self.used_slots <= INT32_MAX:
            slot = <uint32_t>slot % <uint32_t>self.used_slots
        if grows and attempt:
            return (slot + attempt) % self.used_slots
        return slot


cdef inline bint is_empty(const MapEntry *entry) noexcept nogil:
    cdef uint64_t words[2]
    memcpy(words, entry.sum, HASH_SIZE)
    return words[0] == 0 and words[1] == 0 and entry.offset == 0


cdef inline bint retains(const Batches *b, int64_t row, int64_t now, bint keeps_legacy_tombstones) noexcept nogil:
    """Return whether the tombstones of a batch stay."""
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
