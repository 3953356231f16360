"""Files of the demo bookshop: covers, the catalogue as CSV, a report as PDF, the sitemap."""

from __future__ import annotations

import csv
import functools
import io
import struct
import zlib
from collections.abc import Iterable, Sequence
from html import escape

from skitter.demo_site.books import CATEGORIES, Book

COVER_SIZE = (120, 180)
_COLOURS = dict(
    zip(CATEGORIES, [(138, 59, 18), (60, 82, 45), (31, 78, 121), (108, 52, 110), (24, 110, 108)], strict=True)
)


@functools.cache
def cover(book: Book) -> bytes:
    """Return a PNG in the colour of the book's category, with stripes that are unique within the category."""
    width, height = COVER_SIZE
    colour = bytes(_COLOURS[book.category])
    light = bytes(255 - (255 - part) // 3 for part in colour)
    rows = []
    for y in range(height):
        is_stripe = 20 <= y < 160 and (book.id >> ((y - 20) * 8 // 140)) & 1
        # Each row begins with its filter type: none.
        rows.append(b"\0" + colour * 20 + (light if is_stripe else colour) * (width - 40) + colour * 20)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def catalogue_csv(books: Iterable[Book]) -> str:
    """Return all books as CSV, one per line, with a header."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["id", "title", "author", "category", "price", "isbn", "stock"])
    writer.writerows(
        (book.id, book.title, book.author.name, book.category, f"{book.pence / 100:.2f}", book.isbn, book.stock)
        for book in books
    )
    return out.getvalue()


def report_pdf(lines: Sequence[str]) -> bytes:
    """Return a PDF of one page with these lines of text."""
    shown = " ".join(f"({line}) Tj T*" for line in lines)
    drawing = f"BT /F1 14 Tf 18 TL 60 760 Td {shown} ET".encode("latin-1")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources 5 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawing), drawing),
        b"<< /Font << /F1 6 0 R >> >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    made = b"%PDF-1.4\n"
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    end = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(made))
    return made + b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table) + end


def sitemap(urls: Iterable[str], changed: str) -> str:
    entries = "\n".join(f"<url><loc>{escape(url)}</loc><lastmod>{changed}</lastmod></url>" for url in urls)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{entries}\n</urlset>\n'
    )
