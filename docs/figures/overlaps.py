# SPDX-License-Identifier: BSD-3-Clause
"""What of a picture's texts lies over another one or leaves the picture: overlaps.py FILE.svg

How wide a text is depends on the reader's font; counted is one of the widest, DejaVu Sans.
Prints a line for each, and ends with 1 if there is any.
"""
import itertools
import sys
import xml.etree.ElementTree

SVG = "{http://www.w3.org/2000/svg}"
SIZES = {"title": 19, "head": 14, "small": 12}
# In hundredths of the font's size; bold is a tenth more.
WIDTHS = ((" ijl.,:;'|!()ftr", 41), ("mwMW%", 98), ("ABCDEFGHIJKLNOPQRSTUVXYZ", 75))


def width(text, size, bold):
    hundredths = sum(next((each for letters, each in WIDTHS if letter in letters), 64)
                     for letter in text)
    return hundredths * size * (1.1 if bold else 1) / 100


def box(element):
    """Left, top, right, bottom of a text."""
    kinds = element.get("class", "").split()
    size = next((SIZES[kind] for kind in kinds if kind in SIZES), 13)
    wide = width(element.text, size, "title" in kinds or "head" in kinds)
    x, y = float(element.get("x")), float(element.get("y"))
    left = x - wide * {"start": 0, "middle": 0.5, "end": 1}[element.get("text-anchor", "start")]
    return left, y - 0.76 * size, left + wide, y + 0.24 * size


def main():
    picture = xml.etree.ElementTree.parse(sys.argv[1]).getroot()
    _, _, right, bottom = map(float, picture.get("viewBox").split())
    texts = [(each.text, box(each)) for each in picture.iter(f"{SVG}text")]
    bad = [f"leaves the picture: {text}" for text, (x1, y1, x2, y2) in texts
           if x1 < 0 or y1 < 0 or x2 > right or y2 > bottom]
    for (one, a), (other, b) in itertools.combinations(texts, 2):
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]:
            bad.append(f"overlap: {one}; {other}")
    if not texts:
        bad.append("no text")
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
