#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Packs a folder as a wheel, the same bytes whenever and by whomever it is done.

usage: pack.py WHEEL FOLDER SECONDS
The wheel's name says what is in it. The folder has "data" and "scripts", which come
into the prefix and the bin of whoever installs it, and "dist-info" with METADATA; all
files are from so many seconds since 1970.
"""
import base64
import hashlib
import pathlib
import sys
import time
import zipfile


def digest(content):
    found = hashlib.sha256(content).digest()
    return "sha256=" + base64.urlsafe_b64encode(found).decode().rstrip("=")


def main(wheel, folder, seconds):
    name, version, tag = pathlib.Path(wheel).stem.split("-", 2)
    base = f"{name}-{version}"
    info = f"{base}.dist-info"
    places = {"data": f"{base}.data/data", "scripts": f"{base}.data/scripts",
              "dist-info": info}
    date = time.gmtime(int(seconds))[:6]
    record = []

    with zipfile.ZipFile(wheel, "w") as packed:
        def add(path, content, mode=0o644):
            entry = zipfile.ZipInfo(path, date)
            entry.create_system = 3  # Unix, which has modes
            entry.external_attr = (0o100000 | mode) << 16
            packed.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
            record.append(f"{path},{digest(content)},{len(content)}\n")

        for kind, place in places.items():
            for file in sorted(pathlib.Path(folder, kind).rglob("*")):
                if file.is_symlink():
                    sys.exit(f"{file}: a wheel cannot have a symbolic link")
                if file.is_file():
                    path = file.relative_to(pathlib.Path(folder, kind)).as_posix()
                    executable = file.stat().st_mode & 0o100
                    add(f"{place}/{path}", file.read_bytes(), 0o755 if executable else 0o644)
        add(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: ucx-ib-dmabuf\n"
            f"Root-Is-Purelib: false\nTag: {tag}\n".encode())
        record.append(f"{info}/RECORD,,\n")
        add(f"{info}/RECORD", "".join(record).encode())


if len(sys.argv) != 4:
    sys.exit(__doc__)
main(*sys.argv[1:])
