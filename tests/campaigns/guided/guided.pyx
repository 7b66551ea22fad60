"""The compiled kernels once more, with counters of what they took, and libFuzzer that follows these.

One input runs through walk, decode and check, and through one stage more of those that its first bytes name. What is
read lies before a page that nobody may read, and so do the blocks that are written. Where a value cannot be, where
Python raises what it must not, or where the portable kernels say something else, the process ends.
"""

import traceback

include "_native.pyx"

from cpython.buffer cimport PyBUF_WRITE
from libc.stdlib cimport abort
from libc.string cimport memmove

from kdump.blocks import BATCH_COLUMNS, RECORD_COLUMNS, BatchBlock, RecordBlock

cdef extern from "guarded.h" nogil:
    uint8_t *kdump_guarded(size_t size)

cdef extern from "libfuzzer.h":
    int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*run)(const uint8_t *data, size_t size) noexcept)
    size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most) noexcept nogil

include "inputs.pxi"
include "mutator.pxi"

cdef enum:
    NUMBER_OF_INPUTS, NUMBER_OF_COMPARED, NUMBER_OF_WALK, NUMBER_OF_DECODE, NUMBER_OF_CHECK, NUMBER_OF_TEXT,
    NUMBER_OF_COLUMNS, NUMBER_OF_TAKE, NUMBER_OF_CLASSIFY, NUMBER_OF_REWRITE, NUMBER_OF_KEPT, NUMBER_OF_ENCODE,
    NUMBER_OF_SURVEY, NUMBER_OF_CRC, NUMBER_OF_FIND, NUMBER_OF_HOP, NUMBER_OF_ROWS, NUMBER_OF_HASHES, FIGURES

FIGURE_NAMES = (
    "inputs", "compared", "walk", "decode", "check", "text", "columns", "offset_map.take", "offset_map.classify", "rewrite",
    "encode_kept", "encode", "column_stats", "crc", "find_batch", "skip_entries", "rows", "murmur2",
)

cdef int64_t *BASES = [0, 0, 4096, <int64_t>1 << 40]

cdef int64_t *figures = NULL
cdef uint32_t sampled = 0
cdef object compare = None
cdef Py_buffer figures_buffer

cdef uint8_t *first_end = guarded(MOST_INPUT)
cdef uint8_t *second_end = guarded(MOST_INPUT)
cdef uint8_t *batch_ends[15]
cdef uint8_t *record_ends[12]
cdef uint8_t *number_ends[8]
cdef list blocks = [None]
cdef list record_blocks = [None]
cdef list texts = []
cdef RecordColumns gathered = RecordColumns(
    ("offset", "batch.producer_id"), True, True, True, control=True, most_rows=1 << 20, most_bytes=1 << 24
)

cdef class New:
    """Columns of new records (portable.encode.NewRecords)."""

    cdef public object length, source, timestamp, key_position, key_length, value_position, value_length
    cdef public object headers_position, headers_length, headers_count


cdef New new_records = New()


cdef int set_up() except -1:
    cdef int i
    cdef int64_t capacity
    for i in range(15):
        batch_ends[i] = guarded(8 * MOST_ROWS)
    for i in range(12):
        record_ends[i] = guarded(8 * MOST_RECORDS)
    for i in range(8):
        number_ends[i] = guarded(8 * MOST_NUMBERS)
    for capacity in range(1, MOST_ROWS + 1):
        block = BatchBlock(capacity)
        for i, name in enumerate(BATCH_COLUMNS):
            setattr(block, name, numbers_at(<int64_t *>batch_ends[i] - capacity, capacity))
        blocks.append(block)
    for capacity in range(1, MOST_RECORDS + 1):
        block = RecordBlock(capacity)
        for i, name in enumerate(RECORD_COLUMNS):
            setattr(block, name, numbers_at(<int64_t *>record_ends[i] - capacity, capacity))
        record_blocks.append(block)
    for i in range(8):
        texts.append(LogText(i & 1, i & 2, i & 4, lambda number, value: b"control", hold=True))
    return 0


set_up()


cdef void point_batches(Batches *b, const Input *given, const uint8_t *data, int64_t base) noexcept nogil:
    """As bind_batches, without a block."""
    cdef int64_t **columns = &b.position
    cdef int i
    for i in range(15):
        columns[i] = <int64_t *>batch_ends[i] - given.rows
    b.capacity = given.rows
    b.data_position = base
    b.available = <int64_t>given.first_size
    b.data = data


cdef void point_records(Records *r, const Input *given) noexcept nogil:
    cdef int64_t **columns = &r.row
    cdef int i
    for i in range(12):
        columns[i] = <int64_t *>record_ends[i] - given.records
    r.capacity = given.records
    r.length = 0
    r.flagged = -1
    r.next_row = r.next_index = r.next_position = 0


cdef int must(bint holds, str what) except -1:
    if not holds:
        raise AssertionError(what)
    return 0


cdef int run_log(const Input *given) except -1:
    cdef Batches b
    cdef const uint8_t *data = laid(first_end, given.first, given.first_size)
    cdef const uint8_t *payload = laid(second_end, given.second, given.second_size)
    cdef int64_t base = BASES[given.flags & 3], size = <int64_t>given.first_size, position = base, before
    cdef int64_t file_end = base + size + 20 * (given.flags >> 2 & 3)
    cdef int64_t end = file_end - (given.extra & 31 if given.flags & 16 else 0), length, needed = 0, bad_size = 0
    cdef int64_t found
    cdef int status, turn
    point_batches(&b, given, data, base)
    for turn in range(64):
        before = position
        length = 0
        status = walk_rows(&b, &position, end, file_end, &length, &needed, &bad_size)
        figures[NUMBER_OF_WALK] += 1
        must(0 <= length <= given.rows and position >= before, "a walk ends where it began, or behind that")
        must(length == 0 or b.position[length - 1] + b.size[length - 1] == position, "a walk ends behind its last row")
        if length:
            run_rows(given, &b, length, payload)
        if status != BLOCK_FULL:
            break
    if given.flags & 64:
        found = find_entry(data, given.extra & 15, size, size, -1 if given.flags & 1 else 0, INT64_MAX)
        figures[NUMBER_OF_FIND] += 1
        must(found == -1 or (given.extra & 15) <= found <= size - HEADER_SIZE, "an entry is found inside")
    if given.flags & 128 and size > FRAME_SIZE:
        found = skip_entries(view_of(data, <size_t>size), 0, size - FRAME_SIZE, size)
        figures[NUMBER_OF_HOP] += 1
        must(0 <= found <= size, "a hop ends inside")
    return 0


cdef int run_rows(const Input *given, const Batches *b, int64_t length, const uint8_t *payload) except -1:
    cdef Source sources[MOST_ROWS]
    cdef Records r
    cdef Fault fault
    cdef int64_t row, start
    cdef int turn
    for row in range(length):
        start = b.position[row] - b.data_position
        if b.attributes[row] & CODEC_MASK:
            sources[row].data = payload
            sources[row].start = 0
            sources[row].end = <int64_t>given.second_size
            sources[row].confined = True
        else:
            sources[row].data = b.data
            sources[row].start = start + (HEADER_SIZE if b.magic[row] >= 2 else LOG_OVERHEAD)
            sources[row].end = start + b.size[row]
            sources[row].confined = False
        check_one(b, row, &sources[row])
    point_records(&r, given)
    for turn in range(64):
        fault.code = 0
        r.length = 0
        r.flagged = -1
        decode_rows(b, &r, 0, length, sources, &fault)
        figures[NUMBER_OF_DECODE] += 1
        must(0 <= r.length <= given.records and r.next_row <= length, "records are decoded into the block")
        if given.stage % 6 == 2 or given.stage % 6 == 5:
            run_columns(given, b, &r, length, sources)
        elif given.stage % 6 >= 3:
            run_compaction(given, b, &r, length, payload)
        if fault.code:
            r.next_row += 1
            r.next_index = r.next_position = 0
        if r.next_row >= length:
            break
    if given.stage % 6 == 1 or given.stage % 6 == 5:
        run_text(given, b, length, sources)
    return 0


cdef int check_one(const Batches *b, int64_t row, const Source *s) except -1:
    """As check, without a block."""
    cdef Wrapper w
    cdef Message m
    cdef Record r
    cdef Fault fault
    if b.magic[row] >= 2:
        check_batch(b, row, s, &fault)
    elif not b.attributes[row] & CODEC_MASK:
        own_message(b, row, s, &m)
        get_contents(s, &m, &r, &fault)
    elif b.attributes[row] & CODEC_MASK <= 4 and not open_wrapper(b, row, s, &w, &fault):
        while not next_message(s, &w, &m, &fault) and not get_contents(s, &m, &r, &fault):
            pass
    figures[NUMBER_OF_CHECK] += 1
    return 0


cdef int run_text(const Input *given, const Batches *b, int64_t length, Source *sources) except -1:
    cdef LogText text = <LogText>texts[given.extra & 7]
    cdef Fault fault
    cdef int64_t row
    fault.code = 0
    if not given.second_size:
        for row in range(length):
            if b.attributes[row] & CODEC_MASK:
                sources[row].data = NULL
    text.out.length = 0
    text.rows(b, 0, length, sources, &fault, None)
    figures[NUMBER_OF_TEXT] += 1
    text.forget_gaps(0)
    text.has_first = False
    text.last_offset = -1
    return 0


cdef int run_columns(const Input *given, const Batches *b, const Records *r, int64_t length, Source *sources) except -1:
    cdef Wanted w
    cdef Sizes z
    w.batches = b
    w.records = r
    w.sources = sources
    w.first = 0
    w.stop = length
    w.picks = NULL
    w.pick_start = 0
    w.keys = w.values = w.headers = True
    w.control = given.flags & 32 != 0
    z.taken = z.rows = z.keys = z.values = z.headers = z.names = z.contents = 0
    must(
        not measure(&w, 0, r.length, 1 + (given.extra & 15), 16 * given.extra, True, &z),
        "what was decoded lies inside its batches",
    )
    gathered._put(&w, &z, 0, blocks[given.rows], record_blocks[given.records])
    figures[NUMBER_OF_COLUMNS] += 1
    gathered.length = gathered.size = 0
    for column in (
        gathered._keys, gathered._values, gathered._lists, gathered._header_names, gathered._header_values
    ):
        (<ByteColumn>column).v.length = (<ByteColumn>column).v.size = (<ByteColumn>column).v.nulls = 0
    return 0


cdef int run_compaction(
    const Input *given, const Batches *b, const Records *r, int64_t length, const uint8_t *payload
) except -1:
    cdef int64_t row, at, stop
    cdef bytes content = (<const char *>payload)[: given.second_size]
    block, records = blocks[given.rows], record_blocks[given.records]
    block.data = view_of(b.data, given.first_size)
    block.data_position = b.data_position
    block.available = b.available
    block.length = length
    records.length = r.length
    payloads = [content if b.attributes[row] & CODEC_MASK else None for row in range(length)]
    verdicts = bytearray((given.extra >> (at & 7) & 1) * (3 if given.flags & 32 else 1) for at in range(r.length))
    if given.stage % 6 == 3:
        keys = OffsetMap(16 * 24, given.extra % 12)
        at = keys.take(block, records, 0, payloads, b"\1" * length, 0)
        stop = r.row[at] if at < r.length else length
        figures[NUMBER_OF_TAKE] += 1
        verdicts = keys.classify(block, records, 0, payloads, given.extra << 3, 0, given.flags & 32 != 0, length // 2, stop)
        figures[NUMBER_OF_CLASSIFY] += 1
    rewrite(block, records, 0, length, verdicts, <int64_t>1 << 40)
    figures[NUMBER_OF_REWRITE] += 1
    for at in range(r.length):
        if verdicts[at] & 1:
            row = at
            while row < r.length and r.row[row] == r.row[at]:
                row += 1
            encode_kept(block, records, at, row, verdicts, payloads[r.row[at]], given.extra, None)
            figures[NUMBER_OF_KEPT] += 1
            break
    return 0


include "others.pxi"


cdef int run_input(const uint8_t *data, size_t size) except -1:
    cdef Input given
    if size < PREFIX or size > MOST_INPUT:
        return 0
    read_input(data, size, &given)
    figures[NUMBER_OF_INPUTS] += 1
    if given.kind == LOG:
        run_log(&given)
    elif given.kind == TEXTS:
        run_texts(&given)
    elif given.kind == NEW:
        run_new(&given)
    elif given.kind == INDEX:
        run_index(&given)
    else:
        run_bytes(&given)
    if kdump_crc32c(0, data, size) & sampled == 0:
        figures[NUMBER_OF_COMPARED] += 1
        compare(
            given.kind, given.stage, given.rows, given.records, given.flags, given.extra,
            (<const char *>given.first)[: given.first_size], (<const char *>given.second)[: given.second_size],
        )
    return 0


cdef int run_one(const uint8_t *data, size_t size) noexcept:
    try:
        run_input(data, size)
    except BaseException:
        traceback.print_exc()
        abort()
    return 0


def run(list arguments, counted, to_compare, uint32_t sample):
    """Let libFuzzer run with these arguments; it ends the process.

    `counted` is a buffer for as many 64-bit numbers as FIGURE_NAMES has names. Of the inputs those whose CRC-32C has
    none of the bits of `sample` are given to `to_compare`.
    """
    global figures, sampled, compare
    cdef int argc = <int>len(arguments)
    cdef char *argv[64]
    cdef char **pointer = argv
    if argc > 63:
        raise ValueError("too many arguments")
    PyObject_GetBuffer(counted, &figures_buffer, PyBUF_WRITABLE)
    if figures_buffer.len < 8 * FIGURES:
        raise ValueError("there is no room for the figures")
    figures = <int64_t *>figures_buffer.buf
    compare, sampled = to_compare, sample
    for i in range(argc):
        argv[i] = PyBytes_AsString(arguments[i])
    argv[argc] = NULL
    return LLVMFuzzerRunDriver(&argc, &pointer, run_one)
