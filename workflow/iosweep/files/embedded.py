"""Data in an HTML page: JSON, compressed, in a script element that no browser runs. `report/page.js` unpacks it."""

from __future__ import annotations

import base64
import re
import zlib

_ELEMENT = '<script type="application/octet-stream" id="report-data">{}</script>'
_FOUND = re.compile(re.escape(_ELEMENT).replace(re.escape("{}"), "([0-9A-Za-z+/=]*)"))


def element(data: bytes) -> str:
    """The element that holds the data. Base64 needs no escaping in HTML, and cannot end the element."""
    return _ELEMENT.format(base64.b64encode(zlib.compress(data, 9)).decode())


def opened(page: str) -> str:
    """A page with the data of its elements in clear, for whoever searches it. Pages without one stay as they are."""
    return _FOUND.sub(lambda found: data(found[0]).decode(), page)


def data(page: str) -> bytes:
    """The data of the first element of a page. Raises ValueError where there is none, or it is damaged."""
    if (found := _FOUND.search(page)) is None:
        raise ValueError("the page has no element with data")
    try:
        return zlib.decompress(base64.b64decode(found[1]))
    except zlib.error as error:
        raise ValueError(f"the data of the page is damaged ({error})") from None
