# What an input of the fuzzer means, and the memory that it lies in.

cdef enum:
    LOG, TEXTS, NEW, INDEX, SNAPSHOT, CHECKPOINT, KINDS

cdef enum:
    PREFIX = 8
    SPLIT_AT = 6
    MOST_ROWS = 8
    MOST_RECORDS = 24
    NEW_WIDTH = 18
    MOST_NUMBERS = 4096

cdef struct Input:
    # eight bytes say how to look at what follows: one part, or two
    int kind
    int stage
    int64_t rows
    int64_t records
    int flags
    int extra
    int width
    const uint8_t *first
    size_t first_size
    const uint8_t *second
    size_t second_size


cdef void read_input(const uint8_t *data, size_t size, Input *given) noexcept nogil:
    """Take an input of at least PREFIX bytes apart."""
    given.kind = data[0] % KINDS
    given.stage = data[1]
    given.rows = 1 + data[2] % MOST_ROWS
    given.records = 1 + data[3] % MOST_RECORDS
    given.flags = data[4]
    given.extra = data[5]
    given.second_size = min(<size_t>(data[SPLIT_AT] << 8 | data[SPLIT_AT + 1]), size - PREFIX)
    given.first_size = size - PREFIX - given.second_size
    given.first = data + PREFIX
    given.second = given.first + given.first_size
    given.width = NEW_WIDTH
    if given.kind == INDEX:
        given.width = 8 if given.stage % 3 == 0 else 12 if given.stage % 3 == 1 else 34


cdef uint8_t *guarded(size_t size) except NULL:
    cdef uint8_t *end = kdump_guarded(size)
    if end == NULL:
        raise MemoryError
    return end


cdef inline const uint8_t *laid(uint8_t *end, const uint8_t *source, size_t size) noexcept nogil:
    """Copy bytes to right before a page that nobody may read."""
    memcpy(end - size, source, size)
    return end - size


cdef object view_of(const void *start, size_t size):
    return PyMemoryView_FromMemory(<char *>start, <Py_ssize_t>size, PyBUF_WRITE)


cdef char *NUMBER_FORMAT = b"q"


cdef class Numbers:
    """64-bit integers at a place of the memory. A memoryview would not be taken for a column: it asks for a shape."""

    cdef int64_t *start
    cdef Py_ssize_t shape[1]
    cdef Py_ssize_t strides[1]

    def __len__(self):
        return self.shape[0]

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        buffer.buf = self.start
        buffer.obj = self
        buffer.len = 8 * self.shape[0]
        buffer.itemsize = 8
        buffer.readonly = 0
        buffer.ndim = 1
        buffer.format = NUMBER_FORMAT if flags & PyBUF_FORMAT else NULL
        buffer.shape = self.shape
        buffer.strides = self.strides
        buffer.suboffsets = NULL
        buffer.internal = NULL


cdef Numbers numbers_at(int64_t *start, int64_t count):
    cdef Numbers made = Numbers()
    made.start = start
    made.shape[0] = count
    made.strides[0] = 8
    return made
