"""Requests to answers: indexes over HTTP. It needs the extra ``supquant[serve]``.

running       the command's part: where to listen, and the server
connections   searches take a short way past ASGI, and clients that are too slow are cut
app           the ASGI application: every operation has its address
searching | reading | writing | upkeep     the operations
openapi       what the operations take and answer, as openapi.json
calls         one request: token, body, answer
deadlines     requests that take too long are given up
json_values   fields of a body to arrays, and columns to JSON
watching      saves by other processes are taken over
service       what all requests share
served        one index: searched, changed and saved, read anew
batching      queries of several requests in one scan
tokens | limits | metrics | schemas
"""
