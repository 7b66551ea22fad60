# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled kernels: same functions and same results as `kdump.kernels.portable.kernels`, which says what they do.

Every read is preceded by a comparison with what is left of the buffer. The numbers of faults and verdicts and the positions
in a batch's header are those of Python: setup.py writes them to numbers.pxi before it compiles this.
"""

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytearray cimport (
    PyByteArray_AsString, PyByteArray_FromStringAndSize, PyByteArray_Resize, PyByteArray_Size,
)
from cpython.exc cimport PyErr_Fetch, PyErr_Restore
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize, PyBytes_Size
from libc.stdint cimport (
    INT32_MAX, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memchr, memcpy, memset

from array import array

from kdump.formats.faults import DamageError

cdef extern from "Python.h" nogil:
    bint Py_IsInitialized()

cdef extern from "native/crc.h" nogil:
    void kdump_crc_init()
    const char *kdump_crc32c_method()
    uint32_t kdump_crc32c(uint32_t value, const uint8_t *p, size_t n)
    uint32_t kdump_crc32(uint32_t value, const uint8_t *p, size_t n)

cdef extern from "native/md5.h" nogil:
    void kdump_md5_init()
    void kdump_md5(const uint8_t *p, size_t n, uint8_t *sum)
    void kdump_md5_short(const uint8_t *const *p, const size_t *n, uint8_t *const *sums)

cdef extern from "native/memory.h" nogil:
    void *kdump_zeros(size_t n)

cdef extern from "native/varint.h" nogil:
    bint kdump_short_varint(const uint8_t *p, int64_t *at, int64_t end, int64_t *value)

cdef extern from "native/text.h" nogil:
    uint8_t *put_bytes_at "kdump_put_bytes"(uint8_t *to, const char *text, size_t length)
    uint8_t *put "KDUMP_PUT_LITERAL"(uint8_t *to, const char *literal)
    size_t kdump_copy_ascii(uint8_t *to, const uint8_t *source, size_t n)
    size_t kdump_put_number(uint8_t *to, int64_t number)

cdef extern from "native/utf8.h" nogil:
    int KDUMP_FOREIGN, KDUMP_NOT_UTF8, KDUMP_CONTROLS
    size_t kdump_sequence(const uint8_t *p, size_t left, bint *valid)
    uint32_t kdump_character(const uint8_t *p, size_t length)
    int kdump_text_of(const uint8_t *p, size_t n)

cdef extern from "native/rows.h" nogil:
    enum:
        KDUMP_SPILL
    void kdump_rows_init()
    uint8_t *kdump_put_json(uint8_t *to, const uint8_t *p, size_t n, size_t room)
    uint8_t *kdump_put_csv(uint8_t *to, const uint8_t *p, size_t n, size_t room)
    uint8_t *kdump_put_characters(uint8_t *to, const uint8_t *p, size_t n, bint is_ascii, bint is_json)
    uint8_t *kdump_put_base64(uint8_t *to, const uint8_t *p, size_t n)
    uint8_t *kdump_copy(uint8_t *to, const uint8_t *p, size_t n, size_t room)
    bint kdump_is_plain(const uint8_t *p, size_t n, size_t room)

kdump_crc_init()
kdump_md5_init()
kdump_rows_init()


def crc32c_method():
    """Return how CRC-32C is computed here: the processor's instruction, or tables."""
    return kdump_crc32c_method().decode()


def crc32c(data, uint32_t value=0):
    """Return the CRC-32C of `data`, going on from `value`."""
    cdef const uint8_t[::1] view = data
    if view.shape[0] == 0:
        return value
    with nogil:
        value = kdump_crc32c(value, &view[0], <size_t>view.shape[0])
    return value


def crc32(data, uint32_t value=0):
    """Return the CRC-32 of `data`, going on from `value`."""
    cdef const uint8_t[::1] view = data
    if view.shape[0] == 0:
        return value
    with nogil:
        value = kdump_crc32(value, &view[0], <size_t>view.shape[0])
    return value


include "numbers.pxi"
include "native/common.pxi"
include "native/walk.pxi"
include "native/records.pxi"
include "native/text.pxi"
include "native/encode.pxi"
include "native/offset_map.pxi"
include "native/compaction.pxi"
include "native/columns.pxi"
include "native/column_stats.pxi"
include "native/rows.pxi"
include "native/arrow.pxi"
