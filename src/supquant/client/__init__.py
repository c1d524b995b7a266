"""Requests to answers: a client of `supquant serve`, with the methods of an index. It needs no extra.

remote       Client: what users call
values       arrays, labels and tables to what a request holds, and back
connection   requests over connections that are kept open
"""

from supquant.client.connection import ServiceError
from supquant.client.remote import Client
from supquant.client.values import ClientFilter

__all__ = ["Client", "ClientFilter", "ServiceError"]
