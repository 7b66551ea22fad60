# Mutations that know the formats: fields, entries and whole rows change, and half of the time sizes and checksums are
# made right again, without which nothing gets past them.

cdef enum:
    MOST_ENTRIES = 64
    MOST_INPUT = 4096

cdef struct Entries:
    size_t at[65]  # where each begins; the last one is where they end
    int count

cdef struct Random:
    uint64_t state

cdef int64_t *NUMBERS = [
    INT64_MIN, -(<int64_t>1 << 31), -32768, -129, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12, 13, 14, 17, 22, 49, 61, 63, 64, 127,
    128, 255, 256, 32767, INT32_MAX - 12, INT32_MAX - 1, INT32_MAX, <int64_t>1 << 31, <int64_t>1 << 32, INT64_MAX - 1,
    INT64_MAX,
]
cdef size_t NUMBER_COUNT = 34
cdef int *FIELD_PLACES = [0, 8, 12, 16, 17, 18, 18, 21, 22, 23, 26, 27, 35, 43, 51, 53, 57, 61, 62, 63]
cdef int *FIELD_WIDTHS = [8, 4, 4, 1, 1, 4, 8, 2, 1, 4, 4, 8, 8, 8, 2, 4, 4, 1, 1, 1]
cdef size_t FIELD_COUNT = 20


cdef inline uint64_t draw(Random *random) noexcept nogil:
    random.state ^= random.state << 13
    random.state ^= random.state >> 7
    random.state ^= random.state << 17
    return random.state


cdef inline size_t below(Random *random, size_t limit) noexcept nogil:
    return <size_t>(draw(random) >> 11) % limit if limit else 0


cdef void put_field(uint8_t *to, int width, int64_t value) noexcept nogil:
    cdef int i
    for i in range(width):
        to[i] = <uint8_t>(<uint64_t>value >> 8 * (width - 1 - i))


cdef int64_t drawn_number(Random *random, const uint8_t *old, int width) noexcept nogil:
    """A number at the edge of a range, or near what stands there."""
    cdef int64_t value = 0
    cdef int i
    if below(random, 3):
        return NUMBERS[below(random, NUMBER_COUNT)]
    for i in range(width):
        value = <int64_t>(<uint64_t>value << 8 | old[i])
    return add64(value, <int64_t>below(random, 9) - 4)


cdef void find_entries(const uint8_t *p, size_t size, Entries *found) noexcept nogil:
    """Where the entries of a log begin, as far as their sizes lead."""
    cdef size_t at = 0
    cdef int32_t length
    found.count = 0
    while size - at >= 17 and found.count < MOST_ENTRIES:
        length = get32(p + at + LENGTH_AT)
        if length < MIN_SIZE_FIELD or <size_t>length > size - at - LOG_OVERHEAD:
            break
        found.at[found.count] = at
        found.count += 1
        at += <size_t>length + LOG_OVERHEAD
    found.at[found.count] = at


cdef void mend_log(uint8_t *p, size_t size) noexcept nogil:
    """Make the checksums right as far as the sizes lead."""
    cdef Entries entries
    cdef uint8_t *entry
    cdef size_t length
    cdef int i
    find_entries(p, size, &entries)
    for i in range(entries.count):
        entry = p + entries.at[i]
        length = entries.at[i + 1] - entries.at[i]
        if <signed char>entry[MAGIC_AT] < 2:
            put_field(entry + 12, 4, kdump_crc32(0, entry + 16, length - 16))
        elif length >= HEADER_SIZE:
            put_field(entry + CRC_AT, 4, kdump_crc32c(0, entry + CRC_START, length - CRC_START))


cdef size_t resized(uint8_t *p, size_t size, size_t start, size_t stop, size_t length, size_t most) noexcept nogil:
    """Give `p[start:stop]` another length; the size then, or the old one where it does not fit."""
    if size - (stop - start) + length > most:
        return size
    memmove(p + start + length, p + stop, size - stop)
    return size - (stop - start) + length


cdef size_t mutate_body(uint8_t *p, size_t size, size_t start, size_t stop, size_t most, Random *random) noexcept nogil:
    """Let libFuzzer mutate `p[start:stop]`; the size of all then."""
    cdef uint8_t piece[MOST_INPUT]
    cdef size_t length = stop - start
    if stop <= start or size > MOST_INPUT:
        return size
    memcpy(piece, p + start, length)
    length = LLVMFuzzerMutate(piece, length, min(<size_t>MOST_INPUT, length + most - size))
    size = resized(p, size, start, stop, length, most)
    memcpy(p + start, piece, length)
    return size


cdef size_t mutate_entry(uint8_t *p, size_t size, size_t most, Random *random, bint mends) noexcept nogil:
    """Change a field, the body or the place of one entry of a log."""
    cdef Entries entries
    cdef size_t start, stop, field, length, before = size
    cdef size_t how = below(random, 8)
    cdef int one, i
    find_entries(p, size, &entries)
    if entries.count == 0:
        return LLVMFuzzerMutate(p, size, most)
    one = <int>below(random, <size_t>entries.count)
    start, stop = entries.at[one], entries.at[one + 1]
    if how < 3:
        field = below(random, FIELD_COUNT)
        if FIELD_PLACES[field] + FIELD_WIDTHS[field] <= stop - start:
            put_field(
                p + start + FIELD_PLACES[field],
                FIELD_WIDTHS[field],
                drawn_number(random, p + start + FIELD_PLACES[field], FIELD_WIDTHS[field]),
            )
        return size
    length = stop - start
    if how == 3:  # once more
        if size + length <= most:
            size = resized(p, size, stop, stop, length, most)
            memcpy(p + stop, p + start, length)
        return size
    if how == 4 and entries.count > 1:
        return resized(p, size, start, stop, 0, most)
    i = HEADER_SIZE if <signed char>p[start + MAGIC_AT] >= 2 else 18
    if <size_t>i >= length:
        return size
    if how == 5:  # a byte of a varint, in most cases
        p[start + i + below(random, length - i)] = <uint8_t>NUMBERS[below(random, NUMBER_COUNT)]
        return size
    size = mutate_body(p, size, start + i, stop, most, random)
    if mends:
        put_field(p + start + LENGTH_AT, 4, <int64_t>(stop - start + size - before) - LOG_OVERHEAD)
    return size


cdef size_t mutate_rows(uint8_t *p, size_t size, size_t most, Random *random, size_t width) noexcept nogil:
    """Change, repeat or remove a row of a file that is made of rows."""
    cdef size_t rows = size // width, at
    cdef int field
    if rows == 0:
        return LLVMFuzzerMutate(p, size, most)
    at = below(random, rows) * width
    if below(random, 4) == 0:
        if size + width <= most:
            size = resized(p, size, at, at, width, most)
            memcpy(p + at, p + at + width, width)
        return size
    if below(random, 8) == 0:
        return resized(p, size, at, at + width, 0, most)
    field = 8 if width > 8 and below(random, 2) else 4
    at += below(random, width // <size_t>field) * <size_t>field
    if at + <size_t>field <= size:
        put_field(p + at, field, drawn_number(random, p + at, field))
    return size


cdef void mend_snapshot(uint8_t *p, size_t size) noexcept nogil:
    """Make the CRC of a producer snapshot right, which covers what stands behind it, and the count in front of that."""
    if size >= 10:
        put_field(p + 2, 4, kdump_crc32c(0, p + 6, size - 6))


cdef size_t mutate_content(uint8_t *p, size_t size, size_t most, int kind, int width, Random *random) noexcept nogil:
    cdef bint mends = below(random, 2) == 0
    if below(random, 4) == 0:
        size = LLVMFuzzerMutate(p, size, most)
    elif kind == LOG:
        size = mutate_entry(p, size, most, random, mends)
    elif kind == INDEX or kind == NEW:
        size = mutate_rows(p, size, most, random, <size_t>width)
    elif kind == SNAPSHOT and size > 10:
        size = 10 + mutate_rows(p + 10, size - 10, most - 10, random, 46)
    else:
        size = LLVMFuzzerMutate(p, size, most)
    if mends and kind == LOG:
        mend_log(p, size)
    elif mends and kind == SNAPSHOT:
        mend_snapshot(p, size)
    return size


cdef public size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed) noexcept nogil:
    """What libFuzzer calls for the next input: how it is looked at changes, what it holds, or both."""
    cdef Random random
    cdef Input given
    random.state = <uint64_t>seed * 0x9E3779B97F4A7C15U + 1
    if most <= PREFIX:
        return size
    most = min(most, <size_t>MOST_INPUT)
    if size < PREFIX:
        memset(data + size, 0, PREFIX - size)
        size = PREFIX
    if below(&random, 6) == 0:
        data[below(&random, PREFIX)] = <uint8_t>draw(&random)
        if below(&random, 2):
            return size
    read_input(data, size, &given)
    if given.second_size and below(&random, 2):
        size -= given.second_size
        size += LLVMFuzzerMutate(data + size, given.second_size, min(most - size, <size_t>0xFFFF))
        given.second_size = size - PREFIX - given.first_size
        put_field(data + SPLIT_AT, 2, <int64_t>given.second_size)
        return size
    if given.second_size:
        return size if below(&random, 2) else mutate_before(data, size, &given, most, &random)
    return PREFIX + mutate_content(
        data + PREFIX, given.first_size, most - PREFIX, given.kind, given.width, &random
    )


cdef size_t mutate_before(uint8_t *data, size_t size, const Input *given, size_t most, Random *random) noexcept nogil:
    """Mutate the first part of an input of two; the second one moves."""
    cdef uint8_t second[MOST_INPUT]
    cdef size_t length
    memcpy(second, given.second, given.second_size)
    length = PREFIX + mutate_content(
        data + PREFIX, given.first_size, most - PREFIX - given.second_size, given.kind, given.width, random
    )
    memcpy(data + length, second, given.second_size)
    return length + given.second_size


cdef public size_t LLVMFuzzerCustomCrossOver(
    const uint8_t *one, size_t one_size, const uint8_t *other, size_t other_size, uint8_t *to, size_t most,
    unsigned int seed,
) noexcept nogil:
    """The first entries of one log and the last ones of another; 0 where they are none."""
    cdef Random random
    cdef Input left, right
    cdef Entries entries, others
    cdef size_t head, tail
    random.state = <uint64_t>seed * 0x9E3779B97F4A7C15U + 1
    read_input(one, one_size, &left)
    read_input(other, other_size, &right)
    if left.kind != LOG or right.kind != LOG or left.second_size or right.second_size:
        return 0
    find_entries(left.first, left.first_size, &entries)
    find_entries(right.first, right.first_size, &others)
    head = entries.at[below(&random, <size_t>entries.count + 1)]
    tail = others.at[below(&random, <size_t>others.count + 1)]
    if PREFIX + head + right.first_size - tail > most:
        return 0
    memcpy(to, one, PREFIX)
    memcpy(to + PREFIX, left.first, head)
    memcpy(to + PREFIX + head, right.first + tail, right.first_size - tail)
    return PREFIX + head + right.first_size - tail
