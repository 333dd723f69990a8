"""The data of a report's page."""

import base64
import re
import zlib


def page_data(page: str) -> bytes:
    """The data that a page carries for its scripts."""
    found = re.search('id="report-data">([0-9A-Za-z+/=]*)</script>', page)
    return zlib.decompress(base64.b64decode(found[1])) if found else b""
