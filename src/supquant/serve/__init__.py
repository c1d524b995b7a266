"""Requests to answers: indexes over HTTP. It needs the extra ``supquant[serve]``.

running       the command's share: where to listen, and the server
connections   searches take a shortcut past ASGI, and clients that are too slow are cut off
app           the ASGI application: every operation has its address, and saves by other processes are picked up
searching | looking | writing | reading     the operations
openapi       what the operations take and answer, as openapi.json
calls         one request: token, body, answer
fields        the fields of requests: their JSON schemas and checks
meanings      what codes say about items, for the page
service       what all requests share
served        one index: searched, changed, saved and reloaded
batching      queries of several requests in one scan
encoding      texts and pictures to vectors
deadlines | limits | metrics | tokens
"""
