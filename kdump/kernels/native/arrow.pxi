# Columns as the structures of Arrow's C data and C stream interfaces, around the buffers that they are in.
#
# https://arrow.apache.org/docs/format/CDataInterface.html: whoever takes a structure releases it, when it wants, from any
# thread. Until then `private_data` holds the objects behind it.

cdef enum:
    ARROW_FLAG_NULLABLE = 2
    STREAM_FAILED = 5  # EIO

cdef struct ArrowSchema:
    const char *format
    const char *name
    const char *metadata
    int64_t flags
    int64_t n_children
    ArrowSchema **children
    ArrowSchema *dictionary
    void (*release)(ArrowSchema *) noexcept nogil
    void *private_data

cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void **buffers
    ArrowArray **children
    ArrowArray *dictionary
    void (*release)(ArrowArray *) noexcept nogil
    void *private_data

cdef struct ArrowArrayStream:
    int (*get_schema)(ArrowArrayStream *, ArrowSchema *) noexcept
    int (*get_next)(ArrowArrayStream *, ArrowArray *) noexcept
    const char *(*get_last_error)(ArrowArrayStream *) noexcept
    void (*release)(ArrowArrayStream *) noexcept nogil
    void *private_data

ctypedef union AnyStructure:
    ArrowSchema schema
    ArrowArray array
    ArrowArrayStream stream


cdef class Held:
    """What a structure points to."""

    cdef object kind
    cdef object rows
    cdef bytes error
    cdef Py_buffer *views
    cdef int64_t viewed
    cdef void **pointers
    cdef AnyStructure *children
    cdef int64_t count

    def __cinit__(self, int64_t count=0, int64_t buffers=0):
        self.viewed = 0
        self.count = count
        self.pointers = <void **>calloc(<size_t>(count + buffers + 1), sizeof(void *))
        self.children = <AnyStructure *>calloc(<size_t>(count + 1), sizeof(AnyStructure))
        self.views = <Py_buffer *>calloc(<size_t>(buffers + 1), sizeof(Py_buffer))
        if self.pointers == NULL or self.children == NULL or self.views == NULL:
            raise MemoryError

    def __dealloc__(self):
        while self.viewed:
            self.viewed -= 1
            PyBuffer_Release(&self.views[self.viewed])
        free(self.pointers)
        free(self.children)
        free(self.views)


cdef void let_go(void *held) noexcept nogil:
    """Drop what a structure held, whatever error is on its way. Nothing, once there is no interpreter any more."""
    cdef PyObject *kind
    cdef PyObject *value
    cdef PyObject *traceback
    if not Py_IsInitialized():
        return
    with gil:
        PyErr_Fetch(&kind, &value, &traceback)
        Py_DECREF(<object>held)
        PyErr_Restore(kind, value, traceback)


cdef void release_schema(ArrowSchema *schema) noexcept nogil:
    cdef int64_t at
    for at in range(schema.n_children):
        if schema.children[at].release != NULL:
            schema.children[at].release(schema.children[at])
    schema.release = NULL
    let_go(schema.private_data)


cdef void release_array(ArrowArray *array) noexcept nogil:
    cdef int64_t at
    for at in range(array.n_children):
        if array.children[at].release != NULL:
            array.children[at].release(array.children[at])
    array.release = NULL
    let_go(array.private_data)


cdef void release_stream(ArrowArrayStream *stream) noexcept nogil:
    stream.release = NULL
    let_go(stream.private_data)


cdef int fill_schema(ArrowSchema *to, bytes name, object kind) except -1:
    """Describe a type (columns.names.Kind); `to` is all zeros until it is complete, and when that fails."""
    cdef list fields = list(kind.fields)
    cdef Held held = Held(len(fields))
    cdef int64_t at = 0
    held.kind = (name, kind.format.encode())
    memset(to, 0, sizeof(ArrowSchema))
    try:
        for child_name, child in fields:
            held.pointers[at] = &held.children[at]
            fill_schema(&held.children[at].schema, child_name.encode(), child)
            at += 1
    except BaseException:
        for done in range(at):
            held.children[done].schema.release(&held.children[done].schema)
        raise
    to.name = <const char *>PyBytes_AsString(held.kind[0])
    to.format = <const char *>PyBytes_AsString(held.kind[1])
    to.flags = ARROW_FLAG_NULLABLE
    to.n_children = held.count
    to.children = <ArrowSchema **>held.pointers
    to.release = release_schema
    to.private_data = <void *>held
    Py_INCREF(held)
    return 0


cdef int fill_array(ArrowArray *to, object column) except -1:
    """Point to values (columns.plain.Column); as above."""
    cdef list children = list(column.children), buffers = list(column.buffers)
    cdef Held held = Held(len(children), len(buffers))
    cdef int64_t at = 0, place
    memset(to, 0, sizeof(ArrowArray))
    try:
        for child in children:
            held.pointers[at] = &held.children[at]
            fill_array(&held.children[at].array, child)
            at += 1
        for place, buffer in enumerate(buffers):
            if buffer is not None:
                PyObject_GetBuffer(buffer, &held.views[held.viewed], PyBUF_SIMPLE)
                held.pointers[held.count + place] = held.views[held.viewed].buf
                held.viewed += 1
    except BaseException:
        for done in range(at):
            held.children[done].array.release(&held.children[done].array)
        raise
    to.length = column.length
    to.null_count = column.nulls
    to.n_buffers = len(buffers)
    to.n_children = held.count
    to.children = <ArrowArray **>held.pointers
    to.buffers = <const void **>(held.pointers + held.count)
    to.release = release_array
    to.private_data = <void *>held
    Py_INCREF(held)
    return 0


cdef int stream_schema(ArrowArrayStream *stream, ArrowSchema *to) noexcept with gil:
    cdef Held held = <Held>stream.private_data
    try:
        fill_schema(to, b"", held.kind)
        return 0
    except BaseException as error:
        return failed(held, error)


cdef int stream_next(ArrowArrayStream *stream, ArrowArray *to) noexcept with gil:
    cdef Held held = <Held>stream.private_data
    try:
        column = next(held.rows, None)
        if column is None:
            memset(to, 0, sizeof(ArrowArray))
        else:
            fill_array(to, column)
        return 0
    except BaseException as error:
        return failed(held, error)


cdef int failed(Held held, object error) except? STREAM_FAILED:
    held.error = str(error).encode("utf-8", "replace").replace(b"\0", b"")
    return STREAM_FAILED


cdef const char *stream_error(ArrowArrayStream *stream) noexcept with gil:
    cdef Held held = <Held>stream.private_data
    return <const char *>PyBytes_AsString(held.error) if held.error is not None else NULL


cdef void drop_schema(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef void drop_stream(object capsule) noexcept:
    cdef ArrowArrayStream *stream = <ArrowArrayStream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if stream.release != NULL:
        stream.release(stream)
    free(stream)


def arrow_schema(kind):
    """Return a type as a capsule of Arrow's C data interface; see columns.plain."""
    cdef ArrowSchema *schema = <ArrowSchema *>calloc(1, sizeof(ArrowSchema))
    if schema == NULL:
        raise MemoryError
    try:
        fill_schema(schema, b"", kind)
    except BaseException:
        free(schema)
        raise
    return PyCapsule_New(schema, "arrow_schema", drop_schema)


def arrow_stream(kind, rows):
    """Return columns of a type, made when they are asked for, as a capsule of Arrow's C stream interface."""
    cdef ArrowArrayStream *stream
    cdef Held held = Held()
    held.kind = kind
    held.rows = iter(rows)
    stream = <ArrowArrayStream *>calloc(1, sizeof(ArrowArrayStream))
    if stream == NULL:
        raise MemoryError
    stream.get_schema = stream_schema
    stream.get_next = stream_next
    stream.get_last_error = stream_error
    stream.release = release_stream
    stream.private_data = <void *>held
    Py_INCREF(held)
    return PyCapsule_New(stream, "arrow_array_stream", drop_stream)
