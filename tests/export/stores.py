"""Just enough of Google's and Azure's object stores, in memory, for an upload: list, put, put in parts, delete.

Google's is its XML API, Azure's the REST of blobs. Signatures are not looked at.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "backup"
ACCOUNT = "account"
DATE = formatdate(0, usegmt=True)


class _Handler(BaseHTTPRequestHandler):
    """A request on `objects`; `parts` are what came in parts, `puts` is the order of arrival, `url` is for tests."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]
    parts: dict[tuple[str, str], bytes]
    puts: list[str]
    root: ClassVar[str]
    url: str

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def handle_one_request(self) -> None:
        """Answer one request by a method of its kind."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        url = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        assert url.path.startswith(self.root), self.path
        self.name = unquote(url.path[len(self.root) :]).lstrip("/")
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "Transfer-Encoding" in self.headers:
            raise AssertionError("no length")
        self.answered()

    def answered(self) -> None:
        raise NotImplementedError

    def answer(self, status: int, text: str = "", **headers: str) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in {"ETag": '"1"', "Last-Modified": DATE, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def put(self, data: bytes) -> None:
        self.objects[self.name] = data
        self.puts.append(self.name)

    def listed(self) -> list[tuple[str, int]]:
        prefix = self.query.get("prefix", "")
        return [(escape(name), len(data)) for name, data in sorted(self.objects.items()) if name.startswith(prefix)]


class Google(_Handler):
    """The XML API of Google's."""

    root = f"/{BUCKET}"

    def answered(self) -> None:
        """Answer a request."""
        query, version = self.query, {"x_goog_generation": "1"}
        if self.command == "GET":
            found = "".join(
                f"<Contents><Key>{name}</Key><Size>{size}</Size><ETag>1</ETag>"
                "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                for name, size in self.listed()
            )
            self.answer(200, f"<ListBucketResult>{found}</ListBucketResult>")
        elif self.command == "DELETE":
            self.answer(204 if self.objects.pop(self.name, None) is not None else 404)
        elif self.command == "PUT" and "uploadId" in query:
            self.parts[query["uploadId"], query["partNumber"].zfill(5)] = self.body
            self.answer(200)
        elif self.command == "PUT":
            self.put(self.body)
            self.answer(200, **version)
        elif "uploads" in query:
            more = f"<Bucket>{BUCKET}</Bucket><Key>{escape(self.name)}</Key><UploadId>u{len(self.puts)}</UploadId>"
            self.answer(200, f"<InitiateMultipartUploadResult>{more}</InitiateMultipartUploadResult>")
        else:
            self.put(b"".join(data for at, data in sorted(self.parts.items()) if at[0] == query["uploadId"]))
            more = "<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>"
            self.answer(200, more, **version)


class Azure(_Handler):
    """The blobs of an Azure account."""

    root = f"/{ACCOUNT}/{BUCKET}"

    def answered(self) -> None:
        """Answer a request."""
        what = self.query.get("comp", "")
        if self.command == "GET":
            found = "".join(
                f"<Blob><Name>{name}</Name><Properties><Last-Modified>{DATE}</Last-Modified><Etag>1</Etag>"
                f"<Content-Length>{size}</Content-Length><Content-Type>x/x</Content-Type></Properties></Blob>"
                for name, size in self.listed()
            )
            self.answer(200, f"<EnumerationResults><Blobs>{found}</Blobs><NextMarker/></EnumerationResults>")
        elif self.command == "POST":
            self._batch()
        elif what == "block":
            self.parts[self.name, self.query["blockid"]] = self.body
            self.answer(201)
        elif what == "blocklist":
            blocks = re.findall("<(?:Uncommitted|Latest)>([^<]+)</", self.body.decode())
            self.put(b"".join(self.parts[self.name, block] for block in blocks))
            self.answer(201)
        else:
            assert (self.command, self.headers["x-ms-blob-type"]) == ("PUT", "BlockBlob")
            self.put(self.body)
            self.answer(201)

    def _batch(self) -> None:
        """Delete many, each a request within the request."""
        answers = []
        for number, path in enumerate(re.findall(r"^DELETE ([^ ]+) HTTP", self.body.decode(), re.MULTILINE)):
            there = self.objects.pop(unquote(path[len(self.root) :]).lstrip("/"), None)
            status = "202 Accepted" if there is not None else "404 Not Found"
            head = f"--b\r\nContent-Type: application/http\r\nContent-ID: {number}"
            answers.append(f"{head}\r\n\r\nHTTP/1.1 {status}\r\n\r\n")
        self.answer(202, "".join([*answers, "--b--\r\n"]), Content_Type="multipart/mixed; boundary=b")


@contextmanager
def store_of(kind: type[_Handler]) -> Iterator[tuple[str, type[_Handler]]]:
    """A store on a free port: its address, and what it holds."""
    made = type(kind.__name__, (kind,), {"objects": {}, "parts": {}, "puts": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), made) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", made
        finally:
            server.shutdown()
