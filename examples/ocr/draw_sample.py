#!/usr/bin/env python3
"""Draws sample.png, the picture that the OCR example reads: draw_sample.py [OUTPUT]. Needs Pillow and the DejaVu fonts."""
import pathlib
import sys

from PIL import Image, ImageDraw, ImageFont

FONTS = pathlib.Path("/usr/share/fonts/truetype/dejavu")
SIZE = (640, 384)
# text, font, size, left, top, degrees to turn it by; tests/examples/check_ocr.py reads the texts here.
LINES = [
    ("Automatic mixed precision", "DejaVuSans-Bold", 36, 28, 22, 0),
    ("the type that suits each step", "DejaVuSerif", 25, 32, 86, 0),
    ("Order 4711", "DejaVuSansMono", 24, 30, 146, 0),
    ("2026-11-23", "DejaVuSansMono", 24, 454, 146, 0),
    ("12 x 3.75 = 45.00", "DejaVuSansMono", 24, 30, 190, 0),
    ("Read me at an angle", "DejaVuSans", 27, 330, 205, 8),
    ("Turned upside down", "DejaVuSans", 26, 30, 252, 180),
    ("Weights in 16 bits, sums in 32 bits, loss scaled by 65536.", "DejaVuSans", 16, 32, 326, 0),
]


def main():
    page = Image.new("L", SIZE, 255)
    for text, font, size, left, top, degrees in LINES:
        face = ImageFont.truetype(str(FONTS / f"{font}.ttf"), size)
        box = ImageDraw.Draw(page).textbbox((0, 0), text, font=face)
        ink = Image.new("L", (box[2] + 8, box[3] + 8), 0)
        ImageDraw.Draw(ink).text((4, 4), text, font=face, fill=255)
        ink = ink.rotate(degrees, expand=True, resample=Image.Resampling.BICUBIC)
        page.paste(30, (left, top), ink)
    output = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("sample.png")
    page.point(lambda v: (v + 8) // 17 * 17).quantize(16).save(output, optimize=True)


main()
