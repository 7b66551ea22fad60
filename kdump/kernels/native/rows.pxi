# Rows of columns, in the layout of Arrow's buffers, as lines of JSON or CSV (portable.rows).

cdef enum:
    TEXT_PIECE = 1 << 14  # bytes of a text that are rendered before the next look at whether there is room
    LEAD_STEP = 32  # the lengths of leads are rounded up to it, for copies of a fixed size are several times faster
    NUMBER_ROOM = 32
    LETTER_PAGES = 0x1100  # of 256 characters each
    COLUMN_VIEWS = 9  # a column of headers has that many buffers

ctypedef struct Strings:
    # a column of texts or bytes, or of lists: `ends` of 32 bits, `size` bytes of data or how many elements there are
    const uint8_t *validity  # NULL: none is null
    const uint8_t *ends
    const uint8_t *data
    int64_t size
    int64_t first

ctypedef struct Lead:
    # what stands in front of a cell
    uint8_t *text
    size_t length

ctypedef struct RowColumn:
    int kind
    Lead lead
    Lead twin
    Strings own
    Strings names
    Strings contents


cdef inline bint is_null(const Strings *s, int64_t row) noexcept nogil:
    row += s.first
    return s.validity != NULL and not s.validity[row >> 3] >> (row & 7) & 1


cdef inline int span(const Strings *s, int64_t row, int64_t *start, int64_t *length) except -1 nogil:
    """Find where the data of a row are, once it is sure that they are there."""
    cdef int32_t begin, end
    memcpy(&begin, s.ends + 4 * (s.first + row), 4)
    memcpy(&end, s.ends + 4 * (s.first + row + 1), 4)
    if begin < 0 or end < begin or end > s.size:
        with gil:
            raise ValueError("the offsets are not those of what is in the data")
    start[0] = begin
    length[0] = end - begin
    return 0


cdef inline int put_lead(Out *out, const Lead *lead) except -1 nogil:
    """Put what stands in front of a cell; there is room for a number behind it."""
    cdef size_t at = 0
    reserve(out, lead.length + LEAD_STEP + NUMBER_ROOM)
    while at < lead.length:
        memcpy(out.p + out.length + at, lead.text + at, LEAD_STEP)
        at += LEAD_STEP
    out.length += lead.length
    return 0


cdef Lead lead_of(text) except *:
    cdef Lead made
    cdef bytes content = text
    made.length = <size_t>PyBytes_Size(content)
    made.text = <uint8_t *>calloc(made.length // LEAD_STEP + 1, LEAD_STEP)
    if made.text == NULL:
        raise MemoryError
    memcpy(made.text, PyBytes_AsString(content), made.length)
    return made


cdef class RowText(Exclusive):
    """A renderer of rows; see portable.rows.RowText."""

    cdef bint is_csv
    cdef int count
    cdef RowColumn *columns
    cdef Py_buffer *views
    cdef int viewed
    cdef Out out
    cdef Out cell
    cdef uint8_t *pages[LETTER_PAGES]

    def __cinit__(self, columns, bint is_csv):
        cdef list wanted = list(columns)
        self.is_csv = is_csv
        self.columns = <RowColumn *>calloc(len(wanted) + 1, sizeof(RowColumn))
        self.views = <Py_buffer *>calloc(COLUMN_VIEWS * (len(wanted) + 1), sizeof(Py_buffer))
        if self.columns == NULL or self.views == NULL:
            raise MemoryError
        for kind, lead, twin in wanted:
            self.columns[self.count].kind = kind
            self.count += 1
            self.columns[self.count - 1].lead = lead_of(lead)
            self.columns[self.count - 1].twin = lead_of(twin)

    def __dealloc__(self):
        cdef int at
        for at in range(self.count):
            free(self.columns[at].lead.text)
            free(self.columns[at].twin.text)
        for at in range(LETTER_PAGES):
            free(self.pages[at])
        free(self.columns)
        free(self.views)
        free(self.out.p)
        free(self.cell.p)

    def render(self, int64_t length, columns, write):
        """Write a line for each row."""
        cdef list given = list(columns)
        cdef int at
        if len(given) != self.count or length < 0 or length > INT32_MAX:
            raise ValueError("these are not the columns of the rows")
        self.claim()
        try:
            self.out.length = 0
            for at in range(self.count):
                self.bind(&self.columns[at], given[at], length)
            with nogil:
                self.rows(length, write)
            put_out(&self.out, write)
        finally:
            while self.viewed:
                self.viewed -= 1
                PyBuffer_Release(&self.views[self.viewed])
            self.unclaim()

    cdef const uint8_t *view(self, object owner, int64_t least, int64_t *size) except? NULL:
        """Return the bytes of a buffer, of which there must be so many."""
        cdef Py_buffer *view = &self.views[self.viewed]
        PyObject_GetBuffer(owner, view, PyBUF_SIMPLE)
        self.viewed += 1
        if view.len < least:
            raise ValueError("a buffer is shorter than its column")
        size[0] = view.len
        return <const uint8_t *>view.buf

    cdef int bind(self, RowColumn *column, tuple given, int64_t length) except -1:
        cdef int64_t size = 0
        if column.kind == ROW_NULLS:
            return 0
        if column.kind == ROW_HEADERS:
            first, validity, ends, names, contents = given
            self.bind_strings(&column.own, (first, validity, ends, b""), length)
            size = self.last_end(&column.own, length)
            self.bind_strings(&column.names, names, size)
            self.bind_strings(&column.contents, contents, size)
            column.own.size = size
        elif column.kind in (ROW_TEXT, ROW_BYTES, ROW_JSON):
            self.bind_strings(&column.own, given, length)
        else:
            first, validity, data = given
            self.bind_first(&column.own, first, validity, length)
            size = column.own.first + length
            size = size + 7 >> 3 if column.kind == ROW_BOOL else size * (4 if column.kind == ROW_INT32 else 8)
            column.own.data = self.view(data, size, &size)
        return 0

    cdef int bind_first(self, Strings *to, int64_t first, object validity, int64_t length) except -1:
        cdef int64_t size
        if first < 0 or first > INT32_MAX:
            raise ValueError("a column does not begin there")
        to.first = first
        to.validity = NULL
        if validity is not None:
            to.validity = self.view(validity, first + length + 7 >> 3, &size)
        return 0

    cdef int bind_strings(self, Strings *to, tuple given, int64_t length) except -1:
        cdef int64_t size = 0
        first, validity, ends, data = given
        self.bind_first(to, first, validity, length)
        to.ends = self.view(ends, 4 * (to.first + length + 1), &size)
        to.data = self.view(data, 0, &to.size)
        return 0

    cdef int64_t last_end(self, const Strings *s, int64_t length) except -1:
        cdef int32_t end
        memcpy(&end, s.ends + 4 * (s.first + length), 4)
        if end < 0:
            raise ValueError("the offsets are not those of what is in the data")
        return end

    cdef int rows(self, int64_t length, object write) except -1 nogil:
        cdef int64_t row
        cdef int at
        for row in range(length):
            for at in range(self.count):
                put_lead(&self.out, &self.columns[at].lead)
                if self.is_csv:
                    self.csv_cell(&self.columns[at], row, write)
                else:
                    self.json_cell(&self.columns[at], row, write)
            reserve(&self.out, NUMBER_ROOM)
            advance(&self.out, put(cursor(&self.out), b"\n") if self.is_csv else put(cursor(&self.out), b"}\n"))
            self.flush_full(write)
        return 0

    cdef inline int flush_full(self, object write) except -1 nogil:
        if self.out.length >= FLUSH_SIZE:
            with gil:
                put_out(&self.out, write)
        return 0

    cdef int json_cell(self, const RowColumn *column, int64_t row, object write) except -1 nogil:
        if column.kind == ROW_NULLS or is_null(&column.own, row):
            advance(&self.out, put(cursor(&self.out), b"null"))
        elif column.kind == ROW_TEXT or column.kind == ROW_BYTES:
            self.json_text(column, &column.own, row, write)
        elif column.kind == ROW_JSON:
            self.json_as_it_is(&column.own, row, write)
        elif column.kind == ROW_HEADERS:
            self.headers(&self.out, column, row, write)
        else:
            self.number(column, row)
        return 0

    cdef int csv_cell(self, const RowColumn *column, int64_t row, object write) except -1 nogil:
        if column.kind == ROW_NULLS or is_null(&column.own, row):
            put_lead(&self.out, &column.twin)
        elif column.kind == ROW_TEXT or column.kind == ROW_BYTES or column.kind == ROW_JSON:
            self.csv_text(column, row, write)
        elif column.kind == ROW_HEADERS:
            self.cell.length = 0
            self.headers(&self.cell, column, row, None)
            self.pieces(self.cell.p, self.cell.length, self.cell.length, True, write)
        else:
            self.number(column, row)
        return 0

    cdef inline int number(self, const RowColumn *column, int64_t row) except -1 nogil:
        cdef int32_t narrow
        cdef int64_t wide
        cdef uint8_t *to = cursor(&self.out)
        row += column.own.first
        if column.kind == ROW_BOOL:
            to = put_bool(to, column.own.data[row >> 3] >> (row & 7) & 1)
        elif column.kind == ROW_INT32:
            memcpy(&narrow, column.own.data + 4 * row, 4)
            to = put_number(to, narrow)
        else:
            memcpy(&wide, column.own.data + 8 * row, 8)
            to = put_number(to, wide)
        advance(&self.out, to)
        return 0

    cdef int json_text(self, const RowColumn *column, const Strings *s, int64_t row, object write) except -1 nogil:
        cdef int64_t start = 0, length = 0
        cdef const uint8_t *p
        cdef int found
        span(s, row, &start, &length)
        p = s.data + start
        found = kdump_text_of(p, <size_t>length)
        if found & KDUMP_NOT_UTF8:
            self.refuse_text(column)
            advance(&self.out, put(cursor(&self.out), b"null"))
            put_lead(&self.out, &column.twin)
            advance(&self.out, put(cursor(&self.out), b'"'))
            self.base64(&self.out, p, <size_t>length)
            advance(&self.out, put(cursor(&self.out), b'"'))
        elif found & KDUMP_CONTROLS:
            self.characters(&self.out, p, <size_t>length, False)
        else:
            self.pieces(p, <size_t>length, <size_t>(s.size - start), False, write)
        return 0

    cdef int json_as_it_is(self, const Strings *s, int64_t row, object write) except -1 nogil:
        cdef int64_t start = 0, length = 0
        cdef const uint8_t *p
        cdef int found
        span(s, row, &start, &length)
        p = s.data + start
        found = kdump_text_of(p, <size_t>length)
        if found & KDUMP_NOT_UTF8:
            with gil:
                raise ValueError("a text is not UTF-8")
        reserve(&self.out, 6 * <size_t>length + KDUMP_SPILL)
        if found & KDUMP_CONTROLS or (length and memchr(p, 0x7F, <size_t>length) != NULL):
            advance(&self.out, kdump_put_characters(cursor(&self.out), p, <size_t>length, False, True))
        else:
            advance(&self.out, kdump_copy(cursor(&self.out), p, <size_t>length, <size_t>(s.size - start)))
        return 0

    cdef int csv_text(self, const RowColumn *column, int64_t row, object write) except -1 nogil:
        cdef int64_t start = 0, length = 0
        cdef size_t room
        cdef const uint8_t *p
        cdef int found
        span(&column.own, row, &start, &length)
        p = column.own.data + start
        room = <size_t>(column.own.size - start)
        found = kdump_text_of(p, <size_t>length)
        if found & KDUMP_NOT_UTF8:
            self.refuse_text(column)
            put_lead(&self.out, &column.twin)
            return self.base64(&self.out, p, <size_t>length)
        if length and kdump_is_plain(p, <size_t>length, room) and (
            not found & KDUMP_FOREIGN or self.are_letters(p, <size_t>length)
        ):
            reserve(&self.out, <size_t>length + KDUMP_SPILL)
            advance(&self.out, kdump_copy(cursor(&self.out), p, <size_t>length, room))
        else:
            self.pieces(p, <size_t>length, room, True, write)
        return put_lead(&self.out, &column.twin)

    cdef int refuse_text(self, const RowColumn *column) except -1 nogil:
        if column.kind != ROW_BYTES and column.kind != ROW_HEADERS:
            with gil:
                raise ValueError("a text is not UTF-8")
        return 0

    cdef int pieces(self, const uint8_t *p, size_t length, size_t room, bint is_csv, object write) except -1 nogil:
        """Put a valid text in quotes, escaped, piece by piece, so that no room for six times its bytes is needed."""
        cdef size_t at = 0, piece
        cdef uint8_t *to
        while True:
            piece = min(length - at, <size_t>TEXT_PIECE)
            reserve(&self.out, 6 * piece + 2 * KDUMP_SPILL)
            to = cursor(&self.out)
            if at == 0:
                to = put(to, b'"')
            if is_csv:
                to = kdump_put_csv(to, p + at, piece, room - at)
            else:
                to = kdump_put_json(to, p + at, piece, room - at)
            at += piece
            if at == length:
                advance(&self.out, put(to, b'"'))
                return reserve(&self.out, NUMBER_ROOM)
            advance(&self.out, to)
            self.flush_full(write)

    cdef int characters(self, Out *out, const uint8_t *p, size_t length, bint is_ascii) except -1 nogil:
        reserve(out, 6 * length + KDUMP_SPILL + NUMBER_ROOM)
        advance(out, put(cursor(out), b'"'))
        advance(out, kdump_put_characters(cursor(out), p, length, is_ascii, False))
        advance(out, put(cursor(out), b'"'))
        return 0

    cdef int base64(self, Out *out, const uint8_t *p, size_t length) except -1 nogil:
        reserve(out, length // 3 * 4 + KDUMP_SPILL)
        advance(out, kdump_put_base64(cursor(out), p, length))
        return reserve(out, NUMBER_ROOM)

    cdef bint are_letters(self, const uint8_t *p, size_t length) except -1 nogil:
        """Return whether a text of letters, digits and characters beyond ASCII is one of letters and digits."""
        cdef size_t at = 0, size
        cdef bint valid
        cdef uint32_t character
        while at < length:
            if p[at] < 0x80:
                at += 1
                continue
            size = kdump_sequence(p + at, length - at, &valid)
            character = kdump_character(p + at, size)
            if self.pages[character >> 8] == NULL:
                with gil:
                    self.fill_page(character >> 8)
            if not self.pages[character >> 8][(character & 0xFF) >> 3] >> (character & 7) & 1:
                return False
            at += size
        return True

    cdef int fill_page(self, uint32_t page) except -1:
        """Ask Python which of 256 characters are letters or digits."""
        cdef uint8_t *bits = <uint8_t *>calloc(32, 1)
        cdef uint32_t low
        if bits == NULL:
            raise MemoryError
        self.pages[page] = bits
        for low in range(256):
            if chr(page << 8 | low).isalnum():
                bits[low >> 3] |= <uint8_t>(1 << (low & 7))
        return 0

    cdef int headers(self, Out *out, const RowColumn *column, int64_t row, object write) except -1 nogil:
        """Put a record's headers as JSON: for a cell of CSV with characters beyond ASCII escaped."""
        cdef int64_t start = 0, length = 0, at
        span(&column.own, row, &start, &length)
        reserve(out, NUMBER_ROOM)
        advance(out, put(cursor(out), b"["))
        for at in range(start, start + length):
            advance(out, put(cursor(out), b',{"key":') if at > start else put(cursor(out), b'{"key":'))
            self.header_text(out, column, &column.names, at)
            advance(out, put(cursor(out), b',"value":'))
            self.header_text(out, column, &column.contents, at)
            advance(out, put(cursor(out), b"}"))
            self.flush_row(out, write)
        advance(out, put(cursor(out), b"]"))
        return 0

    cdef inline int flush_row(self, Out *out, object write) except -1 nogil:
        if out == &self.out:
            self.flush_full(write)
        return 0

    cdef int header_text(self, Out *out, const RowColumn *column, const Strings *s, int64_t at) except -1 nogil:
        cdef int64_t start = 0, length = 0
        cdef const uint8_t *p
        cdef int found
        if is_null(s, at):
            advance(out, put(cursor(out), b"null"))
            return reserve(out, NUMBER_ROOM)
        span(s, at, &start, &length)
        p = s.data + start
        found = kdump_text_of(p, <size_t>length)
        if found & KDUMP_NOT_UTF8:
            if s == &column.names:
                with gil:
                    raise ValueError("a text is not UTF-8")
            advance(out, put(cursor(out), b'null,"valueBase64":"'))
            self.base64(out, p, <size_t>length)
            advance(out, put(cursor(out), b'"'))
        elif found:
            self.characters(out, p, <size_t>length, self.is_csv)
        else:
            reserve(out, 6 * <size_t>length + 2 * KDUMP_SPILL)
            advance(out, put(cursor(out), b'"'))
            advance(out, kdump_put_json(cursor(out), p, <size_t>length, <size_t>(s.size - start)))
            advance(out, put(cursor(out), b'"'))
        return reserve(out, NUMBER_ROOM)
