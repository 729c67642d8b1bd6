"""Small models in ONNX's format, as bytes, without its library."""
import struct

FLOAT, UINT8, INT64, BFLOAT16 = 1, 2, 7, 16


# ---- ONNX: a message is a list of fields, (number, integer, text, bytes or message) -----------------------------------
def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def message(*fields):
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value & (1 << 64) - 1)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def value(name, dtype, *extents):
    """An extent is a number, a name, or None."""
    dims = [message((1, e) if isinstance(e, int) else (2, e)) if e is not None else b"" for e in extents]
    return message((1, name), (2, message((1, message((1, dtype), (2, message(*((1, d) for d in dims))))))))


def table(name, rows, columns, values):
    return message((1, rows), (1, columns), (2, FLOAT), (8, name), (9, struct.pack(f"<{rows * columns}f", *values)))


def node(kind, inputs, outputs, name="", domain=""):
    return message(*((1, i) for i in inputs), *((2, o) for o in outputs), (3, name), (4, kind), (7, domain))


def model(nodes, inputs, outputs, tensors=(), producer="tests", domains=("",)):
    graph = message(*((1, n) for n in nodes), (2, "g"), *((5, t) for t in tensors), *((11, i) for i in inputs),
                    *((12, o) for o in outputs))
    return message((1, 8), (2, producer), (7, graph), *((8, message((1, d), (2, 17))) for d in domains))
